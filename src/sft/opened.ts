/** Opening a supervised run: its folder, new or to resume, and then engine, model and policy. */
import { mergeLayers, type ConfigInput } from '../config';
import type { Engine, Model, Policy } from '../engine/types';
import { AcoerError } from '../errors';
import { adapterWeights } from '../models';
import {
  createRunDirectory,
  findCheckpoint,
  newRunPath,
  openRunDirectory,
  readRunDirectory,
  restorePolicy,
  type RunDirectory,
  type StoredCheckpoint,
} from '../run';
import { baseModelOf, checkBaseModel, checkBaseTokenizer, loadHashed } from '../life/base-model';
import type { SftEvent, SftSummary } from '../life/events';
import type { Life } from '../life/life';
import { admitModules, rememberModules, sinkModules } from '../life/modules/named-modules';
import { storedCommit, withAbsoluteNames } from '../life/names';
import { otherMaker } from '../life/maker';
import { createPolicy, openEngine } from '../life/policy';
import type { Row } from '../types';
import { resolveSft, type SftConfig, type SftInput, type SftRunConfig } from './config';
import {
  openSftInputs,
  withLasting,
  withPinned,
  type SftIdentity,
  type SftInputs,
  type SftOpenOptions,
} from './inputs';
import { allowedChanges, checkIdentity, START, storedSft, type SftState } from './state';

/** A run whose folder is open and locked, before its model is loaded. */
export interface SftOpening {
  directory: RunDirectory;
  config: SftRunConfig;
  inputs: SftInputs;
  /** null: from the beginning. */
  checkpoint: StoredCheckpoint | null;
  resumed: boolean;
}

/** What a supervised run loads. */
export interface SftModel {
  engine: Engine;
  model: Model;
  policy: Policy;
  identity: SftIdentity;
  state: SftState;
  /** Frees policy, model and engine, unless the engine answers no call. */
  close(engineAnswers: boolean): Promise<void>;
}

/** Everything a supervised run has open. */
export interface OpenedSft extends SftOpening, SftModel, Life<SftEvent> {
  directory: RunDirectory;
}

export interface SftAsked {
  settings: SftInput;
  rows?: readonly Row[];
  fetching: SftOpenOptions;
  /** The code that a resumed run names may be loaded. */
  trust: boolean;
}

const noticeOf =
  ({ fetching }: SftAsked) =>
  (message: string): void =>
    fetching.onNotice?.(message);

export async function openNewSft(out: string | undefined, asked: SftAsked): Promise<SftOpening> {
  const { rows, fetching } = asked;
  const resolved = resolveSft([asked.settings]);
  await rememberModules(sinkModules(resolved), noticeOf(asked));
  const wanted = await withLasting(resolved, fetching);
  const inputs = await openSftInputs(wanted, rows, fetching);
  const config = withPinned(wanted, inputs, rows !== undefined);
  const directory = createRunDirectory(out ?? newRunPath('runs', config.name ?? 'sft'), config);
  return { directory, config, inputs, checkpoint: null, resumed: false };
}

/** The stored settings of a supervised run. @throws BAD_CONFIG for a run of another kind */
function storedSettings(directory: RunDirectory): SftConfig {
  const settings = directory.settings();
  if ('numGenerations' in settings) {
    const { path } = directory;
    throw new AcoerError(
      'BAD_CONFIG',
      `${path} is a run of acoer train; resume it with: acoer train --resume ${path}`,
    );
  }
  return resolveSft([settings]);
}

/** The stored configuration, and the same under new settings, with paths and commits that keep their meaning. */
function resumedConfigs(
  directory: RunDirectory,
  settings: SftInput,
): { stored: SftConfig; wanted: SftConfig } {
  const stored = storedSettings(directory);
  const layers = [stored, settings] as ConfigInput[];
  const asked = withAbsoluteNames(resolveSft([mergeLayers(layers)]));
  const model = storedCommit(asked.model, stored.model);
  const dataset = storedCommit(asked.dataset, stored.dataset);
  return { stored, wanted: { ...asked, model, dataset } };
}

/** Locks the run and finds the checkpoint to continue from. @throws BAD_CONFIG for a change that is not allowed */
export async function openResumedSft(
  path: string,
  asked: SftAsked,
  warn: (message: string) => void,
): Promise<SftOpening> {
  const { settings, rows, fetching, trust } = asked;
  const { stored, wanted } = resumedConfigs(readRunDirectory(path), settings);
  const directory = openRunDirectory(path);
  try {
    const checkpoint = await findCheckpoint(directory, warn);
    for (const change of allowedChanges(stored, wanted)) warn(change);
    const step = checkpoint?.step ?? 0;
    if (wanted.maxSteps !== null && wanted.maxSteps < step) {
      throw new AcoerError(
        'BAD_CONFIG',
        `A resumed run cannot change maxSteps to ${wanted.maxSteps}: it has already made ${step} steps.`,
      );
    }
    const trusted = { named: settings.sinks ?? [], trust };
    await admitModules(path, sinkModules(wanted), trusted, noticeOf(asked));
    const inputs = await openSftInputs(wanted, rows, fetching);
    if (checkpoint !== null) checkIdentity(checkpoint, inputs.identity);
    const config = withPinned(wanted, inputs, rows !== undefined);
    return { directory, config, inputs, checkpoint, resumed: true };
  } catch (error) {
    directory.lock?.release();
    throw error;
  }
}

/** The summary of a finished run; null: there are steps left. */
export function finishedSft(path: string, settings: SftInput): SftSummary | null {
  const directory = readRunDirectory(path);
  const { stored, wanted } = resumedConfigs(directory, settings);
  if (stored.maxSteps === null || !directory.finished(stored.maxSteps)) return null;
  if ((wanted.maxSteps ?? stored.maxSteps) > stored.maxSteps) return null;
  allowedChanges(stored, wanted);
  // The process was killed after writing the summary: remove the stale lock.
  if (directory.isLocked()) openRunDirectory(path).lock?.release();
  return directory.readJson(directory.summary()) as SftSummary;
}

/** The policy's weights and the run's state, from the checkpoint or the beginning. */
async function startState({ config, checkpoint }: SftOpening, policy: Policy): Promise<SftState> {
  if (checkpoint !== null) {
    await restorePolicy(checkpoint, policy);
    return storedSft(checkpoint).sft;
  }
  if (config.adapter !== null) await policy.restore(adapterWeights(config.adapter));
  return START;
}

/** Loads the model while its files are hashed; frees what it has opened when that fails. */
export async function openSftModel(
  opening: SftOpening,
  { watchdog, emit, signal }: Life<SftEvent>,
): Promise<SftModel> {
  const { config, inputs, checkpoint } = opening;
  const { modelDirectory } = inputs;
  const opened: { dispose(): Promise<void> }[] = [];
  const close = async () => {
    for (const part of opened.splice(0).reverse()) await part.dispose();
  };
  try {
    const engine = await openEngine(config);
    opened.push(engine);
    const loading = { dtype: config.dtype ?? undefined, signal };
    const { model, fingerprints } = await loadHashed(engine, modelDirectory, loading);
    opened.push(model);
    const identity = { ...inputs.identity, model: fingerprints };
    if (checkpoint !== null) checkIdentity(checkpoint, identity);
    const base = checkpoint === null && config.adapter !== null ? baseModelOf(config.adapter) : null;
    if (base !== null) {
      checkBaseModel(base, modelDirectory, identity.model);
      checkBaseTokenizer(base, modelDirectory, inputs.tokenizer, false);
    }
    const policy = await createPolicy(model, config);
    opened.push(policy);
    const state = await startState(opening, policy);
    watchdog.loaded(engine, model);
    const other = checkpoint === null ? null : otherMaker(storedSft(checkpoint).maker, engine);
    if (other !== null) emit({ type: 'warning', message: other });
    return {
      ...{ engine, model, policy, identity, state },
      close: (engineAnswers) => (engineAnswers ? close() : Promise.resolve()),
    };
  } catch (error) {
    await close();
    throw error;
  }
}
