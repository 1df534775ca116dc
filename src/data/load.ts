/** Reads data sets by name, hub id or path. */
import { readdir, readFile, stat } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { AcoerError, whyUnreadable } from '../errors';
import type { Problem } from '../types';
import { collectProblems, type DataFile, type RowReport } from './collect';
import type { ColumnNames } from './columns';
import { chooseFiles, type SplitChoice } from './files';
import { fetchSplit, type HubOptions } from './hub';
import { joinDatasets, partNames } from './join';
import { type DatasetPlace, type KnownDataset, resolveDatasetName } from './names';
import { tinyDataset } from './tiny/dataset';

export interface Dataset {
  readonly name: string;
  readonly size: number;
  /** The same problem for the same index, always. 0 <= index < size. */
  get(index: number): Problem;
  /** Of generated data: no question has more characters. */
  readonly longestQuestion?: number;
  /** Where it was read from; generated data has none. */
  readonly source?: DatasetSource;
}

export interface DatasetSource extends RowReport {
  /** As messages name them: paths, or repository and path. */
  files: string[];
  /** null: a file, which has no splits. */
  split: string | null;
  /** For data of the hub: the name with the commit that was read, which always means these rows. */
  pinned: string | null;
}

export interface DatasetSpec extends HubOptions {
  /**
   * `tiny`, a name of KNOWN_DATASETS, `org/name` on the hub (both with an optional `@revision`), a file or a folder;
   * or several of them, as `math + gsm8k`.
   */
  name: string;
  split: 'train' | 'eval';
  /** Names the stream of generated training data; all other data ignores it. */
  seed: number;
  /** Configuration ("subset") on the hub; default: the data set's own default. */
  config?: string | null;
  /** The split by its own name; default: train for training; test, else validation, else the only one, for `eval`. */
  splitName?: string | null;
  /** Columns whose names are not the usual ones. */
  columns?: ColumnNames;
  /** Default false: the first row that cannot be read throws. */
  skipBadRows?: boolean;
  /** Leave out problems whose gold answer the verifier cannot read. Default: true for `train`. */
  dropUnparsedGold?: boolean;
  /** Keep these levels only. */
  levels?: readonly string[] | null;
}

/** Refuses indices outside the dataset: an undefined problem would surface far from its cause. */
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

/** The splits that would do, by preference. */
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
  throw new AcoerError(
    'BAD_CONFIG',
    `${spec.name} is made for evaluation; to train on it all the same, set datasetSplit to ${known.evalSplit}.`,
  );
}

type HubOrPath = Extract<DatasetPlace, { kind: 'hub' | 'path' }>;

function notHere(name: string): AcoerError {
  return new AcoerError(
    'BAD_INPUT',
    `The data set ${name} was in memory of the program that trained; only train() can be given it again, as trainData or evalData. To evaluate, name other data with --benchmark.`,
  );
}

interface Located {
  files: DataFile[];
  split: string | null;
  pinned: string | null;
}

/** A file as it is; a folder like a repository of the hub. */
async function locatePath(path: string, spec: DatasetSpec, choice: SplitChoice): Promise<Located | null> {
  const kind = await stat(path).catch((error: unknown) => {
    const where = isAbsolute(path) ? '' : ` (looked for in ${process.cwd()})`;
    const reason = `${whyUnreadable(error)}${where}`;
    throw new AcoerError('BAD_INPUT', `Cannot read dataset ${path}: ${reason}`, { cause: error });
  });
  if (!kind.isDirectory()) {
    const asked = spec.splitName ?? spec.config ?? null;
    if (asked === null) return { files: [{ path, label: path }], split: null, pinned: null };
    throw new AcoerError('BAD_CONFIG', `${path} is one file: it has no split or configuration "${asked}".`);
  }
  const found = await readdir(path, { recursive: true, withFileTypes: true });
  const paths = found
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(join(path, '/').length));
  const readme = paths.includes('README.md') ? await readFile(join(path, 'README.md'), 'utf8') : null;
  const chosen = chooseFiles(path, paths, readme, choice);
  if (chosen === null) return null;
  const { files, split } = chosen;
  return {
    files: files.map((file) => ({ path: join(path, file), label: join(path, file) })),
    split,
    pinned: null,
  };
}

/** Where the files of a split lie; null when `choice` may find none and does. */
async function locate(place: HubOrPath, spec: DatasetSpec, choice: SplitChoice): Promise<Located | null> {
  if (place.kind === 'path') return locatePath(place.path, spec, choice);
  const { signal, onProgress, onNotice } = spec;
  const fetched = await fetchSplit(place, choice, { signal, onProgress, onNotice });
  return fetched && { ...fetched, pinned: `${spec.name.split('@')[0]}@${fetched.revision}` };
}

const knownOf = (place: HubOrPath): KnownDataset | null => (place.kind === 'hub' ? place.known : null);

async function readLocated(
  spec: DatasetSpec,
  known: KnownDataset | null,
  { files, split, pinned }: Located,
): Promise<Dataset> {
  const { problems, report } = await collectProblems(spec.name, files, {
    columns: { ...known?.columns, ...spec.columns },
    grading: known?.grading ?? null,
    skipBadRows: spec.skipBadRows ?? false,
    dropUnparsedGold: spec.dropUnparsedGold ?? spec.split === 'train',
    levels: spec.levels ?? null,
    signal: spec.signal,
  });
  const source = { ...report, files: files.map(({ label }) => label), split, pinned };
  return { name: spec.name, size: problems.length, get: (index) => problems[index]!, source };
}

/** Reads one data set. */
async function loadOne(spec: DatasetSpec): Promise<Dataset> {
  const place = resolveDatasetName(spec.name);
  if (place.kind === 'tiny') return tinyDataset(spec.split, spec.seed);
  if (place.kind === 'memory') throw notHere(place.name);
  const known = knownOf(place);
  return readLocated(spec, known, (await locate(place, spec, splitChoice(spec, known)))!);
}

/**
 * The evaluation split of one data set: test, else validation, but never `trainedSplit`. null when there is none, as
 * for a file (`trainedSplit` null).
 * @throws as `loadDataset`, also when `splitName` asks for a split that does not exist
 */
export async function loadEvaluationSplit(
  spec: DatasetSpec,
  trainedSplit: string | null,
): Promise<Dataset | null> {
  const place = resolveDatasetName(spec.name);
  if (place.kind === 'tiny') return tinyDataset('eval', spec.seed);
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

/** The data sets that `spec.name` joins, each as a whole. */
export async function loadParts(spec: DatasetSpec): Promise<Dataset[]> {
  const names = partNames(spec.name);
  // A name that means nothing shows before anything is fetched.
  for (const name of names) resolveDatasetName(name);
  const parts: Dataset[] = [];
  for (const name of names) parts.push(guarded(await loadOne({ ...spec, name })));
  return parts;
}

/**
 * Reads a data set whole. The texts of its problems are kept; solutions and other columns are not.
 *
 * @throws BAD_CONFIG for a name, split, configuration or level that does not exist; BAD_INPUT for files and rows that
 * cannot be read, with file and line; HUB for what cannot be had from the hub
 */
export async function loadDataset(spec: DatasetSpec): Promise<Dataset> {
  const parts = await loadParts(spec);
  return parts.length === 1 ? parts[0]! : guarded(joinDatasets(spec.name, parts));
}
