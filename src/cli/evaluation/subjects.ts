/** What is evaluated: a model without an adapter, with an adapter, or with each checkpoint of a run. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { type Config, resolveConfig } from '../../config';
import { badInput, badUsage, unreadable } from '../../base/errors';
import { fileSha256, RunDirectory, weightsFile } from '../../run';
import type { EvalFlags } from './flags';

export interface Subject {
  /** Unique name in tables and files. */
  label: string;
  /** Folder of the adapter, or of a run's weights if all were trained; null: the model as it is. */
  adapter: string | null;
  /** SHA-256 of these weights: training may have continued in the same folder. */
  adapterSha256: string | null;
  /** Path of the run, for a checkpoint. */
  run: string | null;
  step: number | null;
}

const safe = (text: string): string => text.replace(/[^\w.@+-]+/g, '-').replace(/^[-.]+|-+$/g, '');

function runOf(path: string): { directory: RunDirectory; config: Config } {
  const directory = new RunDirectory(resolve(path));
  if (!existsSync(directory.config())) {
    throw badInput(`${path} is not a run: it has no config.json.`);
  }
  // Its rewards may be functions of the program that trained it: an evaluation needs none.
  return { directory, config: resolveConfig([directory.trainSettings()]) };
}

export const runConfigs = ({ run }: EvalFlags): Config[] => run.map((path) => runOf(path).config);

/** The configuration of the runs, or null without a run. Runs must agree in the settings used here. */
export function runConfig(flags: EvalFlags): Config | null {
  const configs = runConfigs(flags);
  const [first] = configs;
  if (first === undefined) return null;
  const shared = [
    'model',
    'full',
    'quantization',
    'promptTemplate',
    'enableThinking',
    'evalMaxNewTokens',
    'judge',
    'judgeParams',
  ] as const;
  for (const key of shared) {
    const other = configs.findIndex((config) => JSON.stringify(config[key]) !== JSON.stringify(first[key]));
    if (other >= 0) {
      throw badUsage(
        `${flags.run[0]} and ${flags.run[other]} differ in ${key}; evaluate them in separate commands.`,
      );
    }
  }
  return first;
}

/** The checkpoints of a run in order, then its final adapter if that step has no checkpoint. */
async function checkpointsOf(path: string): Promise<Subject[]> {
  const { directory, config } = runOf(path);
  const name = safe(config.name ?? basename(directory.path));
  const steps = directory.checkpointSteps();
  const folders = steps.map((step) => ({ step, adapter: directory.checkpoint(step) }));
  if (existsSync(directory.final()) && steps.at(-1) !== config.maxSteps) {
    folders.push({ step: config.maxSteps, adapter: directory.final() });
  }
  const list: Subject[] = [];
  for (const { step, adapter } of folders) {
    const adapterSha256 = await weightsDigest(adapter);
    list.push({ label: `${name}@${step}`, adapter, adapterSha256, run: path, step });
  }
  if (list.length > 0) return list;
  throw badInput(`${path} has no checkpoint yet; nothing to evaluate.`);
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
export async function subjectsOf(flags: EvalFlags): Promise<Subject[]> {
  const trained: Subject[] = [];
  for (const adapter of flags.adapter) {
    const label = safe(resolve(adapter).split('/').slice(-2).join('-'));
    trained.push({ label, adapter, adapterSha256: await weightsDigest(adapter), run: null, step: null });
  }
  for (const path of flags.run) trained.push(...(await checkpointsOf(path)));
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

/** What was trained is identified by its content. */
async function weightsDigest(folder: string): Promise<string> {
  const path = join(folder, weightsFile(folder));
  if (existsSync(path)) {
    return fileSha256(path).catch((cause: unknown) => {
      throw unreadable(path, cause);
    });
  }
  throw badInput(`${folder} is not an adapter: it has no adapter_model.safetensors.`);
}
