/** What a supervised run reads before a model is loaded, so that mistakes show before a file is written. */
import { datasetOf, loadDataset, memoryName, type Dataset, type DatasetSpec } from '../data';
import { badInput } from '../base/errors';
import { adapterFingerprints, resolveModel, type ModelFetchOptions } from '../models';
import { Pace } from '../base/pace';
import { sampleTokens, type Tokens } from '../base/packing';
import { readPlannedModel } from '../plan';
import { shuffledIndices, streamSeed } from '../base/rng';
import type { Counted } from '../life/method';
import { loadTokenizer, LostCharacters, type Tokenizer } from '../tokenizer';
import { tokenizerIdentity } from '../life/identity';
import { EVALUATION_ROWS, ROWS } from '../life/names';
import type { ModelInputs } from '../life/policy';
import type { Row } from '../base/types';
import type { SftConfig } from './config';
import { encodeLesson } from './encode';
import { SftRows, textsOf } from './rows';
import type { SftIdentity } from './state';
import { stepsPerEpoch } from './step';

export interface SftInputs extends ModelInputs {
  /** Where the examples come from. */
  data: Pick<Dataset, 'name' | 'source'>;
  examples: Tokens[];
  /** Evaluated on, and not among `examples`. */
  heldOut: Tokens[];
  /** Where `heldOut` comes from when that is not `data`. */
  evalData: Pick<Dataset, 'name' | 'source'> | null;
  identity: Omit<SftIdentity, 'model'>;
}

export interface SftOpenOptions extends ModelFetchOptions {
  /** Called after each example that was turned into token ids. */
  onEncoded?: (done: number, total: number) => void;
}

/** Rows given instead of names. */
export interface GivenRows {
  rows?: readonly Row[] | undefined;
  evalRows?: readonly Row[] | undefined;
}

type Named = Pick<DatasetSpec, 'name' | 'split' | 'config' | 'splitName'>;

async function openData(
  named: Named,
  rows: readonly Row[] | undefined,
  { seed, skipBadRows, columns }: SftConfig,
  { signal, onProgress, onNotice }: ModelFetchOptions,
): Promise<Dataset> {
  const reading = {
    seed,
    skipBadRows,
    rowMap: new SftRows(columns),
    dropUnparsedGold: false,
    keepRows: true,
  };
  const spec = { ...named, ...reading, signal, onProgress, onNotice };
  const data =
    rows === undefined
      ? await loadDataset(spec)
      : await datasetOf(named.split === 'train' ? ROWS : EVALUATION_ROWS, rows, spec);
  if (data.source === undefined) {
    throw badInput(
      `${data.name} has problems without solutions; name data with messages, with prompt and completion, or with problem and solution (docs/sft.md).`,
    );
  }
  const { badRows } = data.source;
  if (badRows.count > 0) {
    const left = `${badRows.count} of ${data.source.rows} rows cannot be read and were left out`;
    onNotice?.(`${data.name}: ${left} (${badRows.examples[0]}).`);
  }
  return data;
}

const trainingNames = ({
  dataset: name,
  datasetConfig: config,
  datasetSplit: splitName,
}: SftConfig): Named => ({ name, split: 'train', config, splitName });

const evaluationNames = (
  name: string,
  { evalDatasetConfig: config, evalDatasetSplit: splitName }: SftConfig,
): Named => ({ name, split: 'eval', config, splitName });

const count = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? '' : 's'}`;

/** @throws BAD_INPUT when no example is short enough */
async function encodeAll(
  data: Dataset,
  tokenizer: Tokenizer,
  config: SftConfig,
  longest: number,
  { signal, onNotice, onEncoded }: SftOpenOptions,
  purpose: 'train' | 'evaluate' = 'train',
): Promise<Tokens[]> {
  const rows = new SftRows(config.columns);
  const lost = new LostCharacters(tokenizer, 'examples');
  const pace = new Pace();
  const examples: Tokens[] = [];
  for (let i = 0; i < data.size; i++) {
    const lesson = rows.read(data.get(i).row!);
    for (const text of textsOf(lesson)) lost.add(text);
    const example = encodeLesson(tokenizer, lesson, config);
    if (sampleTokens(example) <= longest) examples.push(example);
    await pace.turn();
    signal?.throwIfAborted();
    onEncoded?.(i + 1, data.size);
  }
  lost.sentences().forEach((sentence) => onNotice?.(sentence));
  const left = data.size - examples.length;
  const limit = `longer than ${longest} tokens (maxLength, or the model's context)`;
  if (examples.length === 0) {
    throw badInput(`Nothing is left to ${purpose} on: all examples of ${data.name} are ${limit}.`);
  }
  if (left > 0) onNotice?.(`${data.name}: ${left} of ${count(data.size, 'example')} left out: ${limit}.`);
  return examples;
}

/** A random choice of `count` examples, and the others in their order. @throws BAD_INPUT when none would be left */
function split(examples: readonly Tokens[], count: number, seed: number, name: string) {
  if (count >= examples.length) {
    throw badInput(
      `evalExamples holds out ${count} of the ${examples.length} examples of ${name}, so none is left to train on; hold out fewer, or name evalDataset.`,
    );
  }
  const chosen = shuffledIndices(examples.length, streamSeed(seed, 'held-out')).slice(0, count);
  const out = new Set(chosen);
  return {
    examples: examples.filter((_, i) => !out.has(i)),
    heldOut: examples.filter((_, i) => out.has(i)),
  };
}

/** The examples to train on and those to evaluate on. `options.onNotice` is told what was left out. */
async function openExamples(
  config: SftConfig,
  { rows, evalRows }: GivenRows,
  tokenizer: Tokenizer,
  longest: number,
  options: SftOpenOptions,
) {
  const { evalDataset, evalExamples, seed } = config;
  const data = await openData(trainingNames(config), rows, config, options);
  const all = await encodeAll(data, tokenizer, config, longest, options);
  if (evalExamples === 0) return { data, examples: all, heldOut: [], evalData: null };
  if (evalDataset === null) return { data, evalData: null, ...split(all, evalExamples, seed, data.name) };
  const evalData = await openData(evaluationNames(evalDataset, config), evalRows, config, options);
  const first = { ...evalData, size: Math.min(evalData.size, evalExamples) };
  const heldOut = await encodeAll(first, tokenizer, config, longest, options, 'evaluate');
  return { data, examples: all, heldOut, evalData };
}

export async function openSftInputs(
  config: SftConfig,
  given: GivenRows,
  options: SftOpenOptions,
): Promise<SftInputs> {
  const { directory: modelDirectory } = await resolveModel(config.model, options);
  const planned = await readPlannedModel(modelDirectory);
  const { maxPositions } = planned;
  const tokenizer = await loadTokenizer(modelDirectory);
  const longest = Math.min(config.maxLength ?? maxPositions, maxPositions);
  const opened = await openExamples(config, given, tokenizer, longest, options);
  const { data, evalData } = opened;
  const { tokenizer: files, chatTemplate } = tokenizerIdentity(tokenizer);
  const identity = {
    tokenizer: { ...files, ...chatTemplate },
    adapter: config.adapter === null ? {} : await adapterFingerprints(config.adapter),
    data: { rows: data.source!.fingerprint, ...(evalData && { evaluation: evalData.source!.fingerprint }) },
  };
  return { modelDirectory, planned, tokenizer, ...opened, identity };
}

/** With the number of updates, and the names that always mean these rows. */
export function withPinned(
  config: SftConfig,
  { data, evalData, examples }: SftInputs,
  { rows, evalRows }: GivenRows,
): Counted<SftConfig> {
  const nameOf = (held: boolean, { name, source }: Pick<Dataset, 'name' | 'source'>, given: string) =>
    held ? memoryName(name) : (source?.pinned ?? given);
  return {
    ...config,
    dataset: nameOf(rows !== undefined, data, config.dataset),
    evalDataset: evalData && nameOf(evalRows !== undefined, evalData, config.evalDataset!),
    maxSteps: config.maxSteps ?? config.epochs * stepsPerEpoch(config, examples),
  };
}
