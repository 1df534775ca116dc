/** Reads data sets by name, hub id or path. */
import { badArgument, needObject, needSignal, needString } from '../base/border';
import { readdir, stat } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { AcoerError, badInput, badUsage, whyUnreadable } from '../base/errors';
import { referenceRule } from '../judges';
import type { Problem, Row } from '../base/types';
import {
  collectProblems,
  collectRows,
  type CollectOptions,
  type RowOptions,
  type RowReport,
} from './collect';
import { chooseFiles, readCard, type SplitChoice } from './files';
import { fetchSplit, type HubOptions, type Located } from './hub';
import { joinDatasets, partNames } from './join';
import { type DatasetPlace, type KnownDataset, resolveDatasetName } from './names';
import { embeddedDataset } from './tiny/dataset';

export interface Dataset {
  readonly name: string;
  readonly size: number;
  /** Always the same problem for the same index, 0 <= index < size. */
  get(index: number): Problem;
  /** For generated data: an upper bound on the length of a question in characters. */
  readonly longestQuestion?: number;
  /** Where it was read from; absent for generated data. */
  readonly source?: DatasetSource;
}

export interface DatasetSource extends RowReport {
  /** File names as in messages: paths, or repository and path. None for rows in memory. */
  files: string[];
  /** null for a file, which has no splits. */
  split: string | null;
  /** For data from the hub: the name with the commit that was read, which always means these rows. */
  pinned: string | null;
}

export interface DatasetSpec extends HubOptions, RowOptions {
  /**
   * `tiny`, a name of KNOWN_DATASETS, `org/name` on the hub (both with an optional `@revision`), a file or a
   * folder; or several of them, as `math + gsm8k`.
   */
  name: string;
  split: 'train' | 'eval';
  /** Seed of generated training data; ignored for all other data. */
  seed: number;
  /** Configuration ("subset") on the hub; default: the data set's own default. */
  config?: string | null;
  /** Name of the split. Default: train for `train`; test, else validation, else the only one for `eval`. */
  splitName?: string | null;
}

/** Rejects indices outside the dataset, because an undefined problem would cause an error far from here. */
function guarded(dataset: Dataset): Dataset {
  return {
    ...dataset,
    get: (index) => {
      if (Number.isInteger(index) && index >= 0 && index < dataset.size) return dataset.get(index);
      throw new AcoerError(
        'BAD_ARGUMENT',
        `Dataset ${dataset.name} has rows 0..${dataset.size - 1}, not ${index}`,
      );
    },
  };
}

/** Acceptable splits in order of preference. */
function splitChoice(spec: DatasetSpec, known: KnownDataset | null): SplitChoice {
  const config = spec.config ?? known?.config ?? null;
  if (spec.splitName !== undefined && spec.splitName !== null) {
    return { config, splits: [spec.splitName], orOnly: false };
  }
  if (known === null) {
    return spec.split === 'train'
      ? { config, splits: ['train'], orOnly: false }
      : { config, splits: ['test', 'validation'], orOnly: true };
  }
  const split = spec.split === 'train' ? known.trainSplit : known.evalSplit;
  if (split !== null) return { config, splits: [split], orOnly: false };
  throw badUsage(
    `${spec.name} is made for evaluation; to train on it anyway, set datasetSplit to ${known.evalSplit}.`,
  );
}

type HubOrPath = Extract<DatasetPlace, { kind: 'hub' | 'path' }>;

function notHere(name: string): AcoerError {
  return badInput(
    `The data set ${name} was in the memory of the training program; pass it again to train() as it was given (dataset or trainData, evalDataset or evalData). To evaluate, name other data with --benchmark.`,
  );
}

/** Locates a file, or the files of a folder laid out like a repository on the hub. */
async function locatePath(path: string, spec: DatasetSpec, choice: SplitChoice): Promise<Located | null> {
  const kind = await stat(path).catch((error: unknown) => {
    const where = isAbsolute(path) ? '' : ` (looked for in ${process.cwd()})`;
    const reason = `${whyUnreadable(error)}${where}`;
    throw badInput(`Cannot read dataset ${path}: ${reason}`, error);
  });
  if (!kind.isDirectory()) {
    const asked = spec.splitName ?? spec.config ?? null;
    if (asked === null) return { files: [{ path, label: path }], split: null, revision: null };
    throw badUsage(`${path} is a single file; it has no split or configuration "${asked}".`);
  }
  const found = await readdir(path, { recursive: true, withFileTypes: true });
  const paths = found
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(join(path, '/').length));
  const readme = paths.includes('README.md') ? await readCard(join(path, 'README.md')) : null;
  const chosen = chooseFiles(path, paths, readme, choice);
  if (chosen === null) return null;
  const { files, split } = chosen;
  return {
    files: files.map((file) => ({ path: join(path, file), label: join(path, file) })),
    split,
    revision: null,
  };
}

/** Locates the files of a split; null when there is none and `choice` allows that. */
async function locate(place: HubOrPath, spec: DatasetSpec, choice: SplitChoice): Promise<Located | null> {
  if (place.kind === 'path') return locatePath(place.path, spec, choice);
  const { signal, onProgress, onNotice } = spec;
  return fetchSplit(place, choice, { signal, onProgress, onNotice });
}

const knownOf = (place: HubOrPath): KnownDataset | null => (place.kind === 'hub' ? place.known : null);

const MATH = { judge: 'math', judgeParams: {} };

const collectOptions = (spec: Omit<DatasetSpec, 'name'>, known: KnownDataset | null): CollectOptions => ({
  columns: { ...known?.columns, ...spec.columns },
  rowMap: spec.rowMap,
  grading: known?.grading ?? null,
  references: spec.references ?? referenceRule(MATH),
  keepRows: spec.keepRows ?? true,
  skipBadRows: spec.skipBadRows ?? false,
  dropUnparsedGold: spec.dropUnparsedGold ?? spec.split === 'train',
  levels: spec.levels ?? null,
  signal: spec.signal,
});

/**
 * A data set from rows in memory, which are copied and checked like those of a file.
 * @throws BAD_INPUT naming a row that cannot be read
 */
export async function datasetOf(
  name: string,
  rows: readonly Row[],
  spec: Omit<DatasetSpec, 'name'>,
): Promise<Dataset> {
  const { problems, report } = await collectRows(name, rows, collectOptions(spec, null));
  const source = { ...report, files: [], split: null, pinned: null };
  return guarded({ name, size: problems.length, get: (index) => problems[index]!, source });
}

async function readLocated(
  spec: DatasetSpec,
  known: KnownDataset | null,
  { files, split, revision }: Located,
): Promise<Dataset> {
  const { problems, report } = await collectProblems(spec.name, files, collectOptions(spec, known));
  const pinned = revision && `${spec.name.split('@')[0]}@${revision}`;
  const source = { ...report, files: files.map(({ label }) => label), split, pinned };
  return { name: spec.name, size: problems.length, get: (index) => problems[index]!, source };
}

/** Reads one data set. */
async function loadOne(spec: DatasetSpec): Promise<Dataset> {
  const place = resolveDatasetName(spec.name);
  if (place.kind === 'embedded') return embeddedDataset(spec.name, spec.split, spec.seed);
  if (place.kind === 'memory') throw notHere(place.name);
  const known = knownOf(place);
  return readLocated(spec, known, (await locate(place, spec, splitChoice(spec, known)))!);
}

/**
 * The evaluation split of one data set: test, else validation, but never `trainedSplit`. null when there is
 * none, as for a file (whose `trainedSplit` is null).
 * @throws the errors of `loadDataset`, also when the split `splitName` does not exist
 */
export async function loadEvaluationSplit(
  spec: DatasetSpec,
  trainedSplit: string | null,
): Promise<Dataset | null> {
  const place = resolveDatasetName(spec.name);
  if (place.kind === 'embedded') return embeddedDataset(spec.name, 'eval', spec.seed);
  if (place.kind === 'memory') throw notHere(place.name);
  const named = spec.splitName ?? null;
  if (named === null ? trainedSplit === null : named === trainedSplit) return null;
  const known = knownOf(place);
  const choice = splitChoice(spec, known);
  const splits = choice.splits.filter((split) => split !== trainedSplit);
  if (splits.length === 0) return null;
  const orNone = named === null && known === null;
  const located = await locate(place, spec, { ...choice, splits, orOnly: false, orNone });
  return located && guarded(await readLocated(spec, known, located));
}

/** The data sets that `spec.name` joins. */
export async function loadParts(spec: DatasetSpec): Promise<Dataset[]> {
  const names = partNames(spec.name);
  // Report an unknown name before fetching anything.
  for (const name of names) resolveDatasetName(name);
  const parts: Dataset[] = [];
  for (const name of names) parts.push(guarded(await loadOne({ ...spec, name })));
  return parts;
}

/**
 * Reads a whole data set, with every column of its rows unless `keepRows` is false.
 *
 * @throws BAD_CONFIG for a name, split, configuration or level that does not exist; BAD_INPUT for files and
 * rows that cannot be read, with file and line; HUB when the hub cannot deliver it
 */
export async function loadDataset(spec: DatasetSpec): Promise<Dataset> {
  needObject('the options of loadDataset()', spec);
  needString('name', spec.name);
  if (!['train', 'eval'].includes(spec.split)) throw badArgument('split', '"train" or "eval"', spec.split);
  needSignal('signal', spec.signal);
  const parts = await loadParts(spec);
  return parts.length === 1 ? parts[0]! : guarded(joinDatasets(spec.name, parts));
}
