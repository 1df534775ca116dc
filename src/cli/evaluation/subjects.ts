/** What is evaluated: a model without an adapter, with an adapter, or with each checkpoint of a run. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { type Config, resolveConfig } from '../../config';
import { AcoerError } from '../../errors';
import { RunDirectory } from '../../run';
import type { EvalFlags } from './flags';

export interface Subject {
  /** Unique name in tables and files. */
  label: string;
  /** Folder of the adapter; null: the model without one. */
  adapter: string | null;
  /** SHA-256 of the adapter's weights: training may have continued in the same folder. */
  adapterSha256: string | null;
  /** Path of the run, for a checkpoint. */
  run: string | null;
  step: number | null;
}

const safe = (text: string): string => text.replace(/[^\w.@+-]+/g, '-').replace(/^[-.]+|-+$/g, '');

function runOf(path: string): { directory: RunDirectory; config: Config } {
  const directory = new RunDirectory(resolve(path));
  if (!existsSync(directory.config())) {
    throw new AcoerError('BAD_INPUT', `${path} is not a run: it has no config.json.`);
  }
  // Its rewards may be functions of the program that trained it: an evaluation needs none.
  return { directory, config: resolveConfig([directory.trainSettings()]) };
}

/** The configuration of the runs, or null without a run. Runs must agree in the settings used here. */
export function runConfig(flags: EvalFlags): Config | null {
  const configs = flags.run.map((path) => runOf(path).config);
  const [first] = configs;
  if (first === undefined) return null;
  const shared = [
    'model',
    'promptTemplate',
    'enableThinking',
    'evalMaxNewTokens',
    'judge',
    'judgeParams',
  ] as const;
  for (const key of shared) {
    const other = configs.findIndex((config) => JSON.stringify(config[key]) !== JSON.stringify(first[key]));
    if (other >= 0) {
      throw new AcoerError(
        'BAD_CONFIG',
        `${flags.run[0]} and ${flags.run[other]} differ in ${key}; evaluate them in separate commands.`,
      );
    }
  }
  return first;
}

/** The checkpoints of a run in order, then its final adapter if that step has no checkpoint. */
function checkpointsOf(path: string): Subject[] {
  const { directory, config } = runOf(path);
  const name = safe(config.name ?? basename(directory.path));
  const subject = (step: number, adapter: string): Subject => {
    return { label: `${name}@${step}`, adapter, adapterSha256: adapterDigest(adapter), run: path, step };
  };
  const steps = directory.checkpointSteps();
  const list = steps.map((step) => subject(step, directory.checkpoint(step)));
  if (existsSync(directory.final()) && steps.at(-1) !== config.maxSteps) {
    list.push(subject(config.maxSteps, directory.final()));
  }
  if (list.length > 0) return list;
  throw new AcoerError('BAD_INPUT', `${path} has no checkpoint yet; nothing to evaluate.`);
}

/** Makes labels unique by appending a number to those already taken. */
function distinct(subjects: readonly Subject[]): Subject[] {
  const taken = new Map<string, number>();
  return subjects.map((subject) => {
    const count = (taken.get(subject.label) ?? 0) + 1;
    taken.set(subject.label, count);
    return count === 1 ? subject : { ...subject, label: `${subject.label}-${count}` };
  });
}

/** The base, if requested or if there is nothing else; then adapters; then runs. */
export function subjectsOf(flags: EvalFlags): Subject[] {
  const adapters = flags.adapter.map((path): Subject => {
    const parts = resolve(path).split('/').slice(-2);
    return {
      label: safe(parts.join('-')),
      adapter: path,
      adapterSha256: adapterDigest(path),
      run: null,
      step: null,
    };
  });
  const trained = [...adapters, ...flags.run.flatMap(checkpointsOf)];
  const base: Subject = { label: 'base', adapter: null, adapterSha256: null, run: null, step: null };
  return distinct(flags.base === true || trained.length === 0 ? [base, ...trained] : trained);
}

/** Identifies a set of weights by file names and sizes, without reading gigabytes. */
export function weightsOf(directory: string): string[] {
  return readdirSync(directory)
    .filter((name) => name.endsWith('.safetensors'))
    .sort()
    .map((name) => `${name} ${statSync(join(directory, name)).size}`);
}

export const sha256 = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex');

/** An adapter is small enough to be identified by its content. */
function adapterDigest(adapter: string): string {
  const path = join(adapter, 'adapter_model.safetensors');
  if (existsSync(path)) return sha256(readFileSync(path));
  throw new AcoerError('BAD_INPUT', `${adapter} is not an adapter: it has no adapter_model.safetensors.`);
}
