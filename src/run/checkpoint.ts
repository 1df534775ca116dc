/** Checkpoints, and dumps of refused steps: a folder that exists is complete, which its checksums confirm. */
import { existsSync, renameSync, writeFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Model, Policy } from '../engine/types';
import { badInput } from '../base/errors';
import { jsonText, removeDirectoryAtomic, writeDirectoryAtomic } from './atomic';
import { checksumProblem, type FolderProblem, writeChecksums } from './checksums';
import { METRICS_FILE, readJsonFile, stepName, type RunDirectory } from './directory';
import { readRunFile } from './read-file';
import { linesSince } from './metrics-file';
import { decodeSafetensors, encodeSafetensors, type Tensor } from './safetensors';
import { makeFolders } from '../base/folders';

const ADAPTER = 'adapter_model.safetensors';
const ADAPTER_CONFIG = 'adapter_config.json';
const FULL_WEIGHTS = 'model.safetensors';
const OPTIMIZER = 'optimizer.safetensors';
const ROLLOUTS = 'rollouts.safetensors';
export const STATE = 'state.json';
/** Only in the dump of a refused step. */
export const DUMPED = 'step.json';
const STATE_VERSION = 2;
/** What fits into one buffer. */
const MAX_TENSOR_BYTES = 2 ** 32 - 1;

export interface CheckpointContent {
  /** null: all weights are trained. */
  adapterConfig: unknown;
  /** Plain JSON with everything besides tensors that the next step depends on. */
  state: object;
  /** The generated batch if it has updates left; null between two batches. */
  rollouts: ReadonlyMap<string, Tensor> | null;
}

/** What a checkpoint stores of a policy. */
export type StoredPolicy = Pick<Policy, 'save' | 'saveOptimizer'>;

/** The file of the optimiser in a checkpoint. */
export const optimizerFile = ({ path }: Pick<StoredCheckpoint, 'path'>): string => join(path, OPTIMIZER);

/** The file of the weights in a checkpoint: an adapter's, or all. */
export function weightsFile(directory: string): string {
  return existsSync(join(directory, FULL_WEIGHTS)) ? FULL_WEIGHTS : ADAPTER;
}

/** The files a complete folder must have. */
export const checkpointFiles = (directory: string): string[] => [weightsFile(directory), OPTIMIZER, STATE];

export interface StoredCheckpoint {
  step: number;
  path: string;
  state: unknown;
  rollouts: Map<string, Tensor> | null;
}

const writeJson = (path: string, value: unknown) => writeFileSync(path, jsonText(value));

/**
 * Writes what is trained into a folder that is being filled: an adapter in PEFT's layout, or all weights under
 * Hugging Face's names.
 */
export async function writeWeights(
  directory: string,
  policy: Pick<Policy, 'save'>,
  adapterConfig: unknown,
): Promise<void> {
  if (adapterConfig === null) return policy.save(join(directory, FULL_WEIGHTS));
  await policy.save(join(directory, ADAPTER));
  writeJson(join(directory, ADAPTER_CONFIG), adapterConfig);
}

/**
 * Writes the checkpoint of `step`, replacing an existing one. It holds the lines of metrics.jsonl since the
 * checkpoint before it; the line of that one's step may have come later.
 */
export function saveCheckpoint(
  run: RunDirectory,
  step: number,
  policy: StoredPolicy,
  content: CheckpointContent,
): Promise<void> {
  const before = run.checkpointSteps().findLast((other) => other < step) ?? 0;
  const lines = linesSince(run.metrics(), before);
  const more: Record<string, string> = lines === '' ? {} : { [METRICS_FILE]: lines };
  return writeCheckpointFolder(run.checkpoint(step), policy, content, more);
}

/** Writes a folder with a checkpoint's files and `more` by name; it appears once complete. */
export function writeCheckpointFolder(
  path: string,
  policy: StoredPolicy,
  { adapterConfig, state, rollouts }: CheckpointContent,
  more: Readonly<Record<string, string>> = {},
): Promise<void> {
  return writeDirectoryAtomic(path, async (directory) => {
    await writeWeights(directory, policy, adapterConfig);
    await policy.saveOptimizer(join(directory, OPTIMIZER));
    writeJson(join(directory, STATE), { version: STATE_VERSION, ...state });
    if (rollouts !== null) writeFileSync(join(directory, ROLLOUTS), encodeSafetensors(rollouts));
    for (const [name, text] of Object.entries(more)) writeFileSync(join(directory, name), text);
    await writeChecksums(directory);
  });
}

/**
 * Removes the oldest checkpoints beyond the newest `last` (null: keeps all), except those of the steps
 * `always`. The one of step 0 is kept until there is another.
 */
export function pruneCheckpoints(run: RunDirectory, last: number | null, always: readonly number[]): void {
  const steps = run.checkpointSteps();
  const old = last === null ? [] : steps.slice(0, -last);
  const initial = steps.length > 1 ? steps.filter((step) => step === 0) : [];
  for (const step of new Set([...old, ...initial])) {
    if (!always.includes(step)) removeDirectoryAtomic(run.checkpoint(step));
  }
}

/** How often and after what time a checkpoint is read again that the disk failed to read. */
const ATTEMPTS = 3;
const RETRY_MS = 1_000;

/** What is wrong with a checkpoint; what the disk may yet read is tried again. */
async function checkpointProblem(path: string, retryMs: number): Promise<FolderProblem | null> {
  for (let attempt = 1; ; attempt++) {
    const problem = await checksumProblem(path, checkpointFiles(path));
    if (problem?.kind !== 'failed' || attempt === ATTEMPTS) return problem;
    await wait(retryMs);
  }
}

/** Renames a checkpoint out of the way of later ones, but keeps it for inspection. */
function setAside(run: RunDirectory, step: number): string {
  const base = join(run.checkpoints(), `damaged-${stepName(step)}`);
  let aside = base;
  for (let i = 2; existsSync(aside); i++) aside = `${base}-${i}`;
  renameSync(run.checkpoint(step), aside);
  return aside;
}

interface Unusable {
  step: number;
  problem: FolderProblem;
}

const said = ({ step, problem: { kind, text } }: Unusable) =>
  `The checkpoint of step ${step} ${kind === 'damaged' ? 'is damaged' : 'cannot be used'} (${text})`;

/** Without a checkpoint the run would start over, although one may be whole. */
function refuseUnread(run: RunDirectory, unusable: readonly Unusable[]): void {
  const unread = unusable.find(({ problem }) => problem.kind !== 'damaged');
  if (unread === undefined) return;
  const advice =
    unread.problem.kind === 'forbidden'
      ? 'make the files readable for this user'
      : 'see that the disk can be read';
  throw badInput(
    `${said(unread)}, and no other one of ${run.path} can. Nothing was changed: ${advice}, and resume again.`,
  );
}

/**
 * The newest complete checkpoint, or null if all are damaged or there is none. Those after it are set aside:
 * the run continues without them, and must not meet them again.
 * @param warn called for every one that is set aside
 * @throws BAD_INPUT, and nothing is touched, if there is none but one that cannot be read may be complete
 */
export async function findCheckpoint(
  run: RunDirectory,
  warn: (message: string) => void,
  retryMs = RETRY_MS,
): Promise<StoredCheckpoint | null> {
  const unusable: Unusable[] = [];
  let found: number | undefined;
  for (const step of run.checkpointSteps().reverse()) {
    const problem = await checkpointProblem(run.checkpoint(step), retryMs);
    if (problem === null) {
      found = step;
      break;
    }
    unusable.push({ step, problem });
  }
  if (found === undefined) refuseUnread(run, unusable);
  const stored = found === undefined ? null : readCheckpointFolder(run.checkpoint(found), found);
  for (const [index, one] of unusable.entries()) {
    const before = unusable[index + 1]?.step ?? found;
    const next = before === undefined ? 'there is no earlier one' : `trying the one of step ${before}`;
    warn(`${said(one)} and was moved to ${setAside(run, one.step)}; ${next}.`);
  }
  return stored;
}

/** The checkpoint of `step` in a run opened for reading. @throws BAD_INPUT if it is damaged or cannot be read */
export async function openCheckpoint(run: RunDirectory, step: number): Promise<StoredCheckpoint> {
  const path = run.checkpoint(step);
  const problem = await checksumProblem(path, checkpointFiles(path));
  if (problem === null) return readCheckpointFolder(path, step);
  const what = problem.kind === 'damaged' ? 'is damaged' : 'cannot be used';
  throw badInput(`${path} ${what} (${problem.text}); choose another step.`);
}

/** More steps than any run makes; lines of metrics are counted up to the step. */
const MAX_STEP = 100_000_000;

/** @throws BAD_INPUT if the step of the state is not that of the folder; of a refused step it is the one before */
function checkStep(path: string, step: number, state: object): void {
  const { loop, sft } = state as Record<'loop' | 'sft', { step?: unknown } | null | undefined>;
  const stored = (loop ?? sft)?.step;
  // What has no number there is refused with the rest of the state.
  const fits =
    typeof stored !== 'number' || stored === step || (stored === step - 1 && existsSync(join(path, DUMPED)));
  if (fits && step <= MAX_STEP) return;
  throw badInput(
    `${join(path, STATE)} is damaged: it is of step ${String(stored)}, which does not fit its folder's name.`,
  );
}

/** Reads the checkpoint in a folder whose checksums have been verified. */
export function readCheckpointFolder(path: string, step: number): StoredCheckpoint {
  const state = readJsonFile(join(path, STATE)) as { version?: unknown } | null;
  if (state?.version !== STATE_VERSION) {
    const version = typeof state?.version === 'number' ? `version ${state.version}` : 'no version';
    throw badInput(`${join(path, STATE)} has ${version}, but this acoer reads version ${STATE_VERSION}.`);
  }
  checkStep(path, step, state);
  const rollouts = join(path, ROLLOUTS);
  return {
    step,
    path,
    state,
    rollouts: existsSync(rollouts)
      ? decodeSafetensors(readRunFile(rollouts, MAX_TENSOR_BYTES), rollouts)
      : null,
  };
}

/** Restores a fresh policy to the state in the checkpoint. */
export async function restorePolicy(stored: StoredCheckpoint, policy: Policy): Promise<void> {
  const { path } = stored;
  await policy.restore(join(path, weightsFile(path)));
  await policy.restoreOptimizer(optimizerFile(stored));
}

/** The policy saved in a checkpoint or in `final/`: an adapter, or all weights of a model like `model`. */
export async function loadTrained(model: Model, directory: string): Promise<Policy> {
  if (weightsFile(directory) === ADAPTER) return model.loadAdapter(directory);
  const policy = await model.createPolicy({ kind: 'full' });
  try {
    await policy.restore(join(directory, FULL_WEIGHTS));
    return policy;
  } catch (error) {
    await policy.dispose();
    throw error;
  }
}

const DUMP_VERSION = 1;

/** Number of dumps to keep; each is as large as a checkpoint. */
const KEPT_DUMPS = 3;

/** Writes the dump of `step`, replacing an existing one. */
export function saveDump(
  run: RunDirectory,
  step: number,
  policy: StoredPolicy,
  content: CheckpointContent,
  record: object,
): Promise<void> {
  makeFolders(run.dumps());
  return writeCheckpointFolder(run.dump(step), policy, content, {
    [DUMPED]: jsonText({ version: DUMP_VERSION, step, ...record }),
  });
}

/** Removes old dumps except those of `always`. Sorted by time: a rollback leads to lower steps. */
export function pruneDumps(run: RunDirectory, always: readonly number[]): void {
  const writtenMs = (path: string) => statSync(path).mtimeMs;
  const kept = always.map((step) => run.dump(step)).filter((path) => existsSync(path));
  const others = readdirSync(run.dumps())
    .filter((name) => /^step-\d{6,}$/.test(name))
    .map((name) => join(run.dumps(), name))
    .filter((path) => !kept.includes(path))
    .sort((a, b) => writtenMs(b) - writtenMs(a));
  for (const path of others.slice(Math.max(0, KEPT_DUMPS - kept.length))) removeDirectoryAtomic(path);
}

/**
 * Reads a dump. `record` is what was passed to `saveDump`, unchecked.
 * @throws BAD_INPUT if `path` is not a dump or is damaged
 */
export async function openDump(path: string): Promise<{ checkpoint: StoredCheckpoint; record: unknown }> {
  if (!existsSync(join(path, DUMPED))) {
    throw badInput(
      `${path} is not a dump of a refused step: it has no ${DUMPED}. A run keeps its dumps in non-finite/.`,
    );
  }
  const problem = await checksumProblem(path, [...checkpointFiles(path), DUMPED]);
  if (problem !== null) throw badInput(`The dump ${path} is damaged: ${problem.text}.`);
  const record = readJsonFile(join(path, DUMPED)) as { version?: unknown; step: number };
  if (record.version !== DUMP_VERSION) {
    throw badInput(
      `${join(path, DUMPED)} has version ${String(record.version)}, but this acoer reads version ${DUMP_VERSION}.`,
    );
  }
  return { checkpoint: readCheckpointFolder(path, record.step), record };
}
