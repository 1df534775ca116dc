/** `replay`: repeats a refused step from its dump, and says whether the result is the same. */
import { resolveConfig, type Config } from '../config';
import type { DeviceName, Engine } from '../engine/types';
import { AcoerError, badInput, errorCode } from '../base/errors';
import { resolveLoss } from '../losses';
import { resolveModel, type ModelFetchOptions } from '../models';
import { openDump, restorePolicy, type StoredCheckpoint } from '../run';
import { loadHashed } from '../life/base-model';
import { parseDump } from './dump';
import { checkModel } from './identity';
import { MemoryLimits } from '../grpo/memory';
import { sampleTokens } from '../base/packing';
import { describeNonFinite, type NonFinite } from '../grpo/non-finite';
import {
  offendersOf,
  type Offender,
  makeAgain,
  recordedNumbers,
  type BadGradient,
  type Numbers,
  type Outcome,
  type RefusedStep,
  type ReplayContext,
} from './replay-phases';
import { thisMaker, type Maker } from '../life/identity';
import { createPolicy, openEngine, scheduleOf } from '../life/policy';
import { openReference } from './opened';
import { runStateOf, storedPart } from './state';
import { NO_WATCH } from '../grpo/watch';
import { Ranks } from '../ranks';

export interface ReplayOptions extends Pick<ModelFetchOptions, 'signal' | 'onProgress' | 'onNotice'> {
  /** Default: the run's. On another device numbers may differ by rounding. */
  device?: DeviceName;
  threads?: number;
  /** Also repeats the phase one completion at a time, to find which are not finite on their own. */
  each?: boolean;
  /** An engine to use; it stays open. Default: a new one. */
  engine?: Engine;
}

export interface ReplayedMicroBatch {
  samples: number;
  tokens: number;
  /** null: this pass was refused. */
  loss: number | null;
}

export interface ReplayReport {
  dump: string;
  step: number;
  model: string;
  /** The same number was not finite, and everything measured equals the dump bit for bit. */
  reproduced: boolean;
  /** One sentence for each difference. */
  differences: string[];
  recorded: NonFinite;
  /** null: everything was finite. */
  found: NonFinite | null;
  learningRate: number;
  /** Those of an update, in the order they ran; empty for other phases. */
  microBatches: ReplayedMicroBatch[];
  /** null unless a gradient was refused. */
  gradient: BadGradient | null;
  /** null without `each`. */
  offenders: Offender[] | null;
  /** What made the dump, and what replayed it. */
  maker: { then: Maker; now: Maker };
}

/**
 * Loads the model of the dump in folder `dump`, restores weights and optimiser, and repeats the refused
 * phase. Changes no file.
 *
 * @throws BAD_INPUT when `dump` is not a dump or is damaged; LOAD_FAILED, DEVICE, HUB, ... when the model
 * cannot be loaded; INTERRUPTED
 */
export async function replay(dump: string, options: ReplayOptions = {}): Promise<ReplayReport> {
  const { checkpoint, record: stored } = await openDump(dump);
  const record = parseDump(dump, stored);
  const { device, threads } = options;
  const config = resolveConfig([
    storedPart(checkpoint).config,
    { ...(device && { device }), ...(threads && { threads }) },
  ]);
  const refused = refusedStepOf(dump, checkpoint, record, config);
  const { directory } = await resolveModel(config.model, options);
  const engine = options.engine ?? (await openEngine(config));
  try {
    return await withContext(engine, directory, config, checkpoint, options, async (context) => {
      context.memory.restore(refused.state.memory);
      await restorePolicy(checkpoint, context.policy);
      const outcome = await makeAgain(context, refused);
      throwIfInterrupted(options.signal);
      // An optimiser step that was not refused this time has moved the weights.
      if (outcome.update?.applied === true) await restorePolicy(checkpoint, context.policy);
      const offenders = options.each === true ? await offendersOf(context, refused) : null;
      throwIfInterrupted(options.signal);
      const maker = { then: storedPart(checkpoint).maker, now: thisMaker(engine) };
      return reportOf(dump, config, refused, outcome, { offenders, maker });
    });
  } catch (error) {
    if (errorCode(error) !== 'CANCELLED') throw error;
    throw new AcoerError('INTERRUPTED', 'Interrupted.', { cause: error });
  } finally {
    if (options.engine === undefined) await engine.dispose();
  }
}

/** A cancelled generation ends without an error. */
function throwIfInterrupted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new AcoerError('CANCELLED', 'The replay was cancelled.');
}

function refusedStepOf(
  dump: string,
  checkpoint: StoredCheckpoint,
  record: RefusedStep['record'],
  config: Config,
): RefusedStep {
  const { loop: state, open: batch } = runStateOf(checkpoint, config);
  const needs = { generate: 'requests', advantages: 'rewarded', score: null } as const;
  const { phase } = record.found;
  const need = phase === 'accumulate' || phase === 'step' ? 'update' : needs[phase];
  if (batch === null || (need !== null && record[need] === null)) {
    throw badInput(`${dump} lacks ${batch === null ? 'a batch' : need}.`);
  }
  return { record, state, batch };
}

async function withContext<T>(
  engine: Engine,
  directory: string,
  config: Config,
  checkpoint: StoredCheckpoint,
  { signal }: ReplayOptions,
  work: (context: ReplayContext) => Promise<T>,
): Promise<T> {
  const options = { dtype: config.dtype ?? undefined, quantization: config.quantization, signal };
  const { model, fingerprints } = await loadHashed(engine, directory, options);
  try {
    checkModel(directory, checkpoint, fingerprints);
    const policy = await createPolicy(model, config);
    const reference = await openReference(model, config);
    try {
      const schedule = scheduleOf(config);
      const memory = new MemoryLimits(config);
      const loss = resolveLoss(config.lossType, config.lossParams[config.lossType]);
      const [ranks, watch] = [new Ranks(), NO_WATCH];
      return await work({ config, model, policy, reference, loss, signal, schedule, ranks, watch, memory });
    } finally {
      await reference?.dispose();
      await policy.dispose();
    }
  } finally {
    await model.dispose();
  }
}

const described = (found: NonFinite | null) =>
  found === null ? 'everything was finite' : describeNonFinite(found);

function differencesOf(refused: RefusedStep, { found, numbers }: Outcome): string[] {
  const recorded = refused.record.found;
  const same = described(found) === described(recorded) && found?.phase === recorded.phase;
  const first = same ? [] : [`The dump says: ${described(recorded)}. Now: ${described(found)}.`];
  return [...first, ...numberDifferences(recordedNumbers(refused), numbers)];
}

function numberDifferences(recorded: Numbers, made: Numbers): string[] {
  const differences: string[] = [];
  for (const name of new Set([...recorded.keys(), ...made.keys()])) {
    const [was, is] = [recorded.get(name), made.get(name)];
    if (was === undefined || is === undefined) {
      differences.push(`Only ${is === undefined ? 'in the dump' : 'now'}: ${name}.`);
      continue;
    }
    const length = Math.max(was.length, is.length);
    const place = Array.from({ length }).findIndex((_, i) => !sameNumber(was[i], is[i]));
    if (place === -1) continue;
    const at = length === 1 ? '' : ` first differ at ${place}`;
    differences.push(`${name}${at}: ${was[place]} in the dump, ${is[place]} now.`);
  }
  return differences;
}

/** After JSON there is only one zero and one NaN. */
const sameNumber = (a: number | undefined, b: number | undefined) =>
  a === b || (Number.isNaN(a) && Number.isNaN(b));

function reportOf(
  dump: string,
  { model }: Config,
  refused: RefusedStep,
  outcome: Outcome,
  rest: Pick<ReplayReport, 'offenders' | 'maker'>,
): ReplayReport {
  const { step, found: recorded, learningRate } = refused.record;
  const differences = differencesOf(refused, outcome);
  const microBatches = (outcome.update?.microBatches ?? []).map(({ samples, loss }) => ({
    samples: samples.length,
    tokens: samples.reduce((sum, one) => sum + sampleTokens(one), 0),
    loss: Number.isFinite(loss) ? loss : null,
  }));
  return {
    dump,
    step,
    model,
    reproduced: outcome.found !== null && differences.length === 0,
    differences,
    recorded,
    found: outcome.found,
    learningRate,
    microBatches,
    gradient: outcome.gradient,
    ...rest,
  };
}
