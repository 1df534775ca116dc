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
  writeJsonAtomic,
} from '../run';
import { baseModelOf, checkBaseModel, checkBaseTokenizer, loadHashed } from '../train/base-model';
import { overStored } from '../train/opening';
import { createPolicy, openEngine } from '../train/opened';
import { otherSetUp } from '../train/state';
import type { Row } from '../types';
import { asTrainConfig, resolveSft, type SftConfig, type SftInput } from './config';
import type { SftEvent, SftSummary } from './events';
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
  config: SftConfig;
  inputs: SftInputs;
  /** null: from the beginning. */
  checkpoint: StoredCheckpoint | null;
  resumed: boolean;
}

/** Everything a supervised run has open. */
export interface OpenedSft extends SftOpening {
  engine: Engine;
  model: Model;
  policy: Policy;
  identity: SftIdentity;
  state: SftState;
  emit: (event: SftEvent) => void;
  warn: (message: string) => void;
  close(): Promise<void>;
}

export interface SftAsked {
  settings: SftInput;
  rows?: readonly Row[];
  fetching: SftOpenOptions;
}

export async function openNewSft(out: string | undefined, asked: SftAsked): Promise<SftOpening> {
  const { rows, fetching } = asked;
  const wanted = await withLasting(resolveSft([asked.settings]), fetching);
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
  const asked = resolveSft([mergeLayers(layers)]);
  const { model, adapter, dataset } = overStored(asTrainConfig(stored), asTrainConfig(asked));
  return { stored, wanted: { ...asked, model, adapter, dataset } };
}

/** Locks the run and finds the checkpoint to continue from. @throws BAD_CONFIG for a change that is not allowed */
export async function openResumedSft(
  path: string,
  { settings, rows, fetching }: SftAsked,
  warn: (message: string) => void,
): Promise<SftOpening> {
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

/** The policy that is trained; with `adapter` or from a checkpoint, its weights are restored after that. */
const createSftPolicy = (model: Model, config: SftConfig): Promise<Policy> =>
  createPolicy(model, asTrainConfig(config));

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
  emit: (event: SftEvent) => void,
  signal: AbortSignal | undefined,
): Promise<OpenedSft> {
  const { config, inputs, checkpoint, directory, resumed } = opening;
  const { modelDirectory } = inputs;
  const warn = (message: string) => emit({ type: 'warning', message });
  const opened: { dispose(): Promise<void> }[] = [];
  const close = async () => {
    for (const part of opened.splice(0).reverse()) await part.dispose();
  };
  try {
    const engine = await openEngine(asTrainConfig(config));
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
    const policy = await createSftPolicy(model, config);
    opened.push(policy);
    const state = await startState(opening, policy);
    const other = checkpoint === null ? null : otherSetUp(storedSft(checkpoint).maker, engine);
    if (other !== null) warn(other);
    if (resumed) writeJsonAtomic(directory.config(), config);
    return { ...opening, engine, model, policy, identity, state, emit, warn, close };
  } catch (error) {
    await close();
    throw error;
  }
}
