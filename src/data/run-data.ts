/** The problems a run trains on and those it is evaluated on: never the same question on both sides. */
import { realpathSync } from 'node:fs';
import type { Config } from '../config';
import { AcoerError } from '../errors';
import { evalSpec, trainSpec } from './config';
import { heldOutCount, holdOut, SMALLEST, without } from './hold-out';
import type { HubOptions } from './hub';
import { type Dataset, loadDataset, loadEvaluationSplit, loadParts } from './load';
import { joinDatasets, joinNames } from './join';

export interface RunData {
  trainData: Dataset;
  /** null: nothing is evaluated. */
  evalData: Dataset | null;
  /** The training data before anything was taken out of it. */
  whole: Dataset;
  /** Problems of `evalData` that were held out of `whole`. */
  heldOut: number;
  /** What was taken out, in a sentence each. */
  notices: string[];
}

/** Data that the caller brings. */
export interface GivenData {
  trainData?: Dataset;
  evalData?: Dataset;
}

const percent = (part: number, whole: number): string => `${Math.round((100 * part) / whole)}%`;

/** The files it is read from, whatever they are called; null for data that is not read from files. */
function placesOf({ source }: Dataset): string | null {
  if (source === undefined) return null;
  const place = (file: string) => {
    try {
      return realpathSync(file);
    } catch {
      // A file of the hub goes by repository and path.
      return file;
    }
  };
  return JSON.stringify(source.files.map(place).sort());
}

interface Evaluation {
  /** Data made for it; null: there is none. */
  evalData: Dataset | null;
  /** What some is to be held out of, every level of it; null: of nothing. */
  pool: Dataset | null;
  /** Why it is held out. */
  reason: string;
}

const joined = (name: string, parts: readonly Dataset[]): Dataset | null =>
  parts.length > 1 ? joinDatasets(name, parts) : (parts[0] ?? null);

/** The training data as problems are held out of it: all levels, readable gold answers. */
async function poolOf(config: Config, parts: readonly Dataset[], options: HubOptions): Promise<Dataset[]> {
  const filtered = config.levels !== null || !config.dropUnparsedGold;
  if (!filtered) return [...parts];
  const spec = { ...trainSpec(config), ...options, levels: null, dropUnparsedGold: true };
  const all: Dataset[] = [];
  // Data in memory has no files to be read again, nor filters.
  for (const part of parts) {
    all.push(part.source === undefined ? part : await loadDataset({ ...spec, name: part.name }));
  }
  return all;
}

/** Without `evalDataset`: each part's own evaluation split; parts without one together have some held out. */
async function ownEvaluation(
  config: Config,
  parts: readonly Dataset[],
  inMemory: boolean,
  options: HubOptions,
): Promise<Evaluation> {
  const [evaluated, splitless]: Dataset[][] = [[], []];
  for (const part of parts) {
    const spec = { ...evalSpec({ ...config, evalDataset: null }), ...options, name: part.name };
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
  options: HubOptions,
): Promise<Evaluation> {
  if (given.evalData !== undefined) return { evalData: given.evalData, pool: null, reason: '' };
  const inMemory = given.trainData !== undefined;
  if (config.evalDataset === null) return ownEvaluation(config, parts, inMemory, options);
  const evalData = await loadDataset({ ...evalSpec(config), ...options });
  const places = placesOf(evalData);
  const whole = joined(config.dataset, parts)!;
  if (places === null || places !== placesOf(whole)) return { evalData, pool: null, reason: '' };
  const pool = joined(whole.name, await poolOf(config, parts, options));
  return { evalData: null, pool, reason: `evalDataset is the data that is trained on, ${whole.name}` };
}

function tooFew(reason: string, pool: Dataset): AcoerError {
  const count = pool.size === 1 ? 'its one problem is' : `its ${pool.size} problems are`;
  const few =
    heldOutCount(pool.size) === 0
      ? `${count} too few to hold some out (at least ${SMALLEST})`
      : `its ${pool.size} problems ask too few different questions to hold some out`;
  return new AcoerError(
    'BAD_CONFIG',
    `${reason}, and ${few}; name evalDataset, or set evalProblems and evalSampledProblems to 0.`,
  );
}

/** The embedded task's evaluation problems are made to differ from those it trains on, which are too many to compare. */
const madeApart = ({ dataset, evalDataset }: Config, { trainData, evalData }: GivenData): boolean =>
  dataset === 'tiny' &&
  (evalDataset ?? 'tiny') === 'tiny' &&
  trainData === undefined &&
  evalData === undefined;

function nothingLeft(whole: Dataset, evalData: Dataset): AcoerError {
  return new AcoerError(
    'BAD_INPUT',
    `Nothing is left to train on: all ${whole.size} problems of ${whole.name} are also in ${evalData.name}, which is evaluated on.`,
  );
}

/**
 * The data of a run. Without an evaluation set of its own some of the training data is held out.
 * @throws BAD_CONFIG when too little is there to hold some out; BAD_INPUT when nothing is left to train on; and as
 * `loadDataset`
 */
export async function loadRunData(
  config: Config,
  given: GivenData = {},
  options: HubOptions = {},
): Promise<RunData> {
  const parts = given.trainData ? [given.trainData] : await loadParts({ ...trainSpec(config), ...options });
  const whole = joined(config.dataset, parts)!;
  if (config.evalProblems + config.evalSampledProblems === 0) {
    return { trainData: whole, evalData: null, whole, heldOut: 0, notices: [] };
  }
  const { evalData: made, pool, reason } = await evaluationOf(config, parts, given, options);
  if (madeApart(config, given)) return { trainData: whole, evalData: made, whole, heldOut: 0, notices: [] };
  const held = pool && (await holdOut(pool));
  if (pool !== null && held === null) throw tooFew(reason, pool);
  // Those held out first: a few problems of the whole are then some of these.
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
        `${whole.name}: ${gone} are also in ${made.name}, which is evaluated on; they are left out of training.`,
      );
    }
  }
  return { trainData, evalData, whole, heldOut: held?.size ?? 0, notices };
}
