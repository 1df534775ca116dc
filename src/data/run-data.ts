/** The problems a run trains on and those it is evaluated on, which never share a question. */
import { realpathSync } from 'node:fs';
import type { Config } from '../config';
import { type AcoerError, badInput, badUsage } from '../base/errors';
import { evalSpec, trainSpec } from './config';
import { heldOutCount, holdOut, SMALLEST, without } from './hold-out';
import type { HubOptions } from './hub';
import { type Dataset, type DatasetSpec, loadDataset, loadEvaluationSplit, loadParts } from './load';
import { joinDatasets, joinNames } from './join';
import { isEmbeddedTask } from './tiny/task';

export interface RunData {
  trainData: Dataset;
  /** null when nothing is evaluated. */
  evalData: Dataset | null;
  /** The training data before anything was removed. */
  whole: Dataset;
  /** Number of problems of `evalData` that were held out of `whole`. */
  heldOut: number;
  /** What was removed, one sentence each. */
  notices: string[];
}

/** Data given by the caller. */
export interface GivenData {
  trainData?: Dataset;
  evalData?: Dataset;
}

export interface RunDataOptions extends HubOptions {
  /** Keep every column of the training data, which a reward asks for. Default: if the judge does. */
  keepRows?: boolean;
}

const hubOptions = ({ keepRows: _, ...options }: RunDataOptions): HubOptions => options;

const trainingSpec = (config: Config, options: RunDataOptions): DatasetSpec => ({
  ...trainSpec(config),
  ...hubOptions(options),
  ...(options.keepRows === true && { keepRows: true }),
});

const percent = (part: number, whole: number): string => `${Math.round((100 * part) / whole)}%`;

const isInMemory = ({ source }: Dataset): boolean => source === undefined || source.files.length === 0;

/** The files it was read from, with links resolved; null for data that was not read from files. */
function placesOf(dataset: Dataset): string | null {
  const { source } = dataset;
  if (source === undefined || isInMemory(dataset)) return null;
  const place = (file: string) => {
    try {
      return realpathSync(file);
    } catch {
      // A file on the hub is identified by repository and path.
      return file;
    }
  };
  return JSON.stringify(source.files.map(place).sort());
}

interface Evaluation {
  /** Data intended for evaluation, or null. */
  evalData: Dataset | null;
  /** The data to hold problems out of, with every level; null when nothing is held out. */
  pool: Dataset | null;
  /** Why problems are held out. */
  reason: string;
}

const joined = (name: string, parts: readonly Dataset[]): Dataset | null =>
  parts.length > 1 ? joinDatasets(name, parts) : (parts[0] ?? null);

/** The training data that problems are held out of: all levels, parseable gold answers. */
async function poolOf(
  config: Config,
  parts: readonly Dataset[],
  options: RunDataOptions,
): Promise<Dataset[]> {
  const filtered = config.levels !== null || !config.dropUnparsedGold;
  if (!filtered) return [...parts];
  const spec = { ...trainingSpec(config, options), levels: null, dropUnparsedGold: true };
  const all: Dataset[] = [];
  // In-memory data cannot be read again and has no filters.
  for (const part of parts) {
    all.push(isInMemory(part) ? part : await loadDataset({ ...spec, name: part.name }));
  }
  return all;
}

/**
 * Without `evalDataset`: each part's own evaluation split, and problems held out of the parts without one.
 */
async function ownEvaluation(
  config: Config,
  parts: readonly Dataset[],
  inMemory: boolean,
  options: RunDataOptions,
): Promise<Evaluation> {
  const [evaluated, splitless]: Dataset[][] = [[], []];
  for (const part of parts) {
    const spec = { ...evalSpec({ ...config, evalDataset: null }), ...hubOptions(options), name: part.name };
    const own = inMemory ? null : await loadEvaluationSplit(spec, part.source?.split ?? null);
    if (own === null) splitless!.push(part);
    else evaluated!.push(own);
  }
  const name = joinNames(splitless!.map((part) => part.name));
  return {
    evalData: joined(config.dataset, evaluated!),
    pool: joined(name, await poolOf(config, splitless!, options)),
    reason: `${name} names no evaluation set`,
  };
}

async function evaluationOf(
  config: Config,
  parts: readonly Dataset[],
  given: GivenData,
  options: RunDataOptions,
): Promise<Evaluation> {
  if (given.evalData !== undefined) return { evalData: given.evalData, pool: null, reason: '' };
  const inMemory = given.trainData !== undefined;
  if (config.evalDataset === null) return ownEvaluation(config, parts, inMemory, options);
  const evalData = await loadDataset({ ...evalSpec(config), ...hubOptions(options) });
  const places = placesOf(evalData);
  const whole = joined(config.dataset, parts)!;
  if (places === null || places !== placesOf(whole)) return { evalData, pool: null, reason: '' };
  const pool = joined(whole.name, await poolOf(config, parts, options));
  return { evalData: null, pool, reason: `evalDataset is the same as the training data, ${whole.name}` };
}

function tooFew(reason: string, pool: Dataset): AcoerError {
  const count = pool.size === 1 ? 'its one problem is' : `its ${pool.size} problems are`;
  const few =
    heldOutCount(pool.size) === 0
      ? `${count} too few to hold some out (at least ${SMALLEST})`
      : `its ${pool.size} problems have too few different questions to hold some out`;
  return badUsage(
    `${reason}, and ${few}; name evalDataset, or set evalProblems and evalSampledProblems to 0.`,
  );
}

/**
 * Evaluation problems of the embedded tasks differ from training problems by construction; those are too many
 * to compare.
 */
const madeApart = ({ dataset, evalDataset }: Config, { trainData, evalData }: GivenData): boolean =>
  isEmbeddedTask(dataset) &&
  isEmbeddedTask(evalDataset ?? dataset) &&
  trainData === undefined &&
  evalData === undefined;

function nothingLeft(whole: Dataset, evalData: Dataset): AcoerError {
  return badInput(
    `Nothing is left to train on: all ${whole.size} problems of ${whole.name} are also in the evaluation data ${evalData.name}; name another evalDataset.`,
  );
}

/**
 * The data of a run. Without a separate evaluation set, some of the training data is held out.
 * @throws BAD_CONFIG when there is too little to hold some out; BAD_INPUT when nothing is left to train on;
 * and the errors of `loadDataset`
 */
export async function loadRunData(
  config: Config,
  given: GivenData = {},
  options: RunDataOptions = {},
): Promise<RunData> {
  const parts = given.trainData ? [given.trainData] : await loadParts(trainingSpec(config, options));
  const whole = joined(config.dataset, parts)!;
  const apart = (evalData: Dataset | null) => ({
    trainData: whole,
    evalData,
    whole,
    heldOut: 0,
    notices: [],
  });
  if (config.evalProblems + config.evalSampledProblems === 0) return apart(null);
  const { evalData: made, pool, reason } = await evaluationOf(config, parts, given, options);
  if (madeApart(config, given)) return apart(made);
  const held = pool && (await holdOut(pool));
  if (pool !== null && held === null) throw tooFew(reason, pool);
  // Held-out problems come first, so that an evaluation of a few problems uses these.
  const evalData = joined(
    config.dataset,
    [held, made].filter((data) => data !== null),
  )!;
  const trainData = await without(whole, evalData);
  if (trainData.size === 0) throw nothingLeft(whole, evalData);
  const notices: string[] = [];
  if (pool !== null && held !== null) {
    const count = `${held.size} of ${pool.size} problems (${percent(held.size, pool.size)})`;
    notices.push(`${reason}: held out ${count} for evaluation; they are never trained on.`);
  }
  if (made !== null) {
    const kept = held === null ? whole : await without(whole, held);
    const gone = `${kept.size - trainData.size} of ${whole.size} problems`;
    if (kept.size > trainData.size) {
      notices.push(
        `${whole.name}: ${gone} are also in the evaluation data ${made.name}; they are left out of training.`,
      );
    }
  }
  return { trainData, evalData, whole, heldOut: held?.size ?? 0, notices };
}
