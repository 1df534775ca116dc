/** What a supervised run reads before a model is loaded, so that mistakes show before a file is written. */
import { datasetOf, loadDataset, memoryName, type Dataset, type DatasetSpec } from '../data';
import { AcoerError } from '../errors';
import { adapterFingerprints, resolveModel, type Fingerprints, type ModelFetchOptions } from '../models';
import { Pace } from '../pace';
import { sampleTokens, type Tokens } from '../packing';
import { readPlannedModel } from '../plan';
import { loadTokenizer, LostCharacters, type Tokenizer } from '../tokenizer';
import { tokenizerIdentity } from '../life/identity';
import { withAbsoluteNames, withLastingModel } from '../life/names';
import { ROWS } from '../train/plain';
import type { Row } from '../types';
import type { SftConfig, SftRunConfig } from './config';
import { encodeLesson } from './encode';
import { SftRows, textsOf } from './rows';
import { stepsPerEpoch } from './step';

/** What a run trusts to stay the same, by what it is; the model's part is added when it is loaded. */
export interface SftIdentity {
  model: Fingerprints;
  tokenizer: Fingerprints;
  adapter: Fingerprints;
  data: Fingerprints;
}

export interface SftInputs {
  modelDirectory: string;
  tokenizer: Tokenizer;
  /** Where the examples come from. */
  data: Pick<Dataset, 'name' | 'source'>;
  examples: Tokens[];
  identity: Omit<SftIdentity, 'model'>;
}

export interface SftOpenOptions extends ModelFetchOptions {
  /** Called after each example that was turned into token ids. */
  onEncoded?: (done: number, total: number) => void;
}

const dataSpec = (config: SftConfig, { signal, onProgress, onNotice }: ModelFetchOptions): DatasetSpec => ({
  name: config.dataset,
  split: 'train',
  seed: config.seed,
  config: config.datasetConfig,
  splitName: config.datasetSplit,
  skipBadRows: config.skipBadRows,
  rowMap: new SftRows(config.columns),
  dropUnparsedGold: false,
  keepRows: true,
  signal,
  onProgress,
  onNotice,
});

async function openData(
  config: SftConfig,
  rows: readonly Row[] | undefined,
  options: ModelFetchOptions,
): Promise<Dataset> {
  const spec = dataSpec(config, options);
  const data = rows === undefined ? await loadDataset(spec) : await datasetOf(ROWS, rows, spec);
  if (data.source === undefined) {
    throw new AcoerError(
      'BAD_INPUT',
      `${data.name} has problems without solutions; name data with messages, with prompt and completion, or with problem and solution (docs/sft.md).`,
    );
  }
  const { badRows } = data.source;
  if (badRows.count > 0) {
    const left = `${badRows.count} of ${data.source.rows} rows cannot be read and were left out`;
    options.onNotice?.(`${data.name}: ${left} (${badRows.examples[0]}).`);
  }
  return data;
}

const count = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? '' : 's'}`;

/** @throws BAD_INPUT when no example is short enough */
async function encodeAll(
  data: Dataset,
  tokenizer: Tokenizer,
  config: SftConfig,
  longest: number,
  { signal, onNotice, onEncoded }: SftOpenOptions,
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
    throw new AcoerError(
      'BAD_INPUT',
      `Nothing is left to train on: all examples of ${data.name} are ${limit}.`,
    );
  }
  if (left > 0) onNotice?.(`${data.name}: ${left} of ${count(data.size, 'example')} left out: ${limit}.`);
  return examples;
}

/** Settings with names that mean the same later and elsewhere, and an adapter's own shape. */
export const withLasting = (config: SftConfig, options: ModelFetchOptions): Promise<SftConfig> =>
  withLastingModel(withAbsoluteNames(config), options);

/** `options.onNotice` is told what was left out. */
export async function openSftInputs(
  config: SftConfig,
  rows: readonly Row[] | undefined,
  options: SftOpenOptions,
): Promise<SftInputs> {
  const { directory: modelDirectory } = await resolveModel(config.model, options);
  const { maxPositions } = await readPlannedModel(modelDirectory);
  const tokenizer = await loadTokenizer(modelDirectory);
  const data = await openData(config, rows, options);
  const longest = Math.min(config.maxLength ?? maxPositions, maxPositions);
  const examples = await encodeAll(data, tokenizer, config, longest, options);
  const { tokenizer: files, chatTemplate } = tokenizerIdentity(tokenizer);
  const identity = {
    tokenizer: { ...files, ...chatTemplate },
    adapter: config.adapter === null ? {} : await adapterFingerprints(config.adapter),
    data: { rows: data.source!.fingerprint },
  };
  return { modelDirectory, tokenizer, data, examples, identity };
}

/** With the number of updates, and the name that always means these rows. */
export function withPinned(config: SftConfig, { data, examples }: SftInputs, held: boolean): SftRunConfig {
  const dataset = held ? memoryName(data.name) : (data.source?.pinned ?? config.dataset);
  return { ...config, dataset, maxSteps: config.maxSteps ?? config.epochs * stepsPerEpoch(config, examples) };
}
