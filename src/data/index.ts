/** Datasets by name, hub id or path, with random access: the order of training is the loop's business. */
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { AcoerError, errorCode, errorMessage } from '../errors';
import type { Problem } from '../types';
import { collectProblems, type DataFile, type RowReport } from './collect';
import type { ColumnNames } from './columns';
import { chooseFiles, type SplitChoice } from './files';
import { fetchSplit, type HubOptions } from './hub';
import { type KnownDataset, resolveDatasetName } from './names';
import { tinyDataset } from './tiny/dataset';

export type { RowReport, RowTally } from './collect';
export type { ColumnNames } from './columns';
export { datasetIsPath, evalSpec, trainSpec } from './config';
export { goldParses } from './gold';
export { KNOWN_DATASETS, type KnownDataset } from './names';
export { Turns } from './turns';

export interface Dataset {
  readonly name: string;
  readonly size: number;
  /** The same problem for the same index, always. 0 <= index < size. */
  get(index: number): Problem;
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
  /** `tiny`, a name of KNOWN_DATASETS, `org/name` on the hub (both with an optional `@revision`), a file or a folder. */
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

interface Located {
  files: DataFile[];
  split: string | null;
  pinned: string | null;
}

/** A file as it is; a folder like a repository of the hub. */
async function locatePath(path: string, spec: DatasetSpec): Promise<Located> {
  const kind = await stat(path).catch((error: unknown) => {
    const reason = errorCode(error) === 'ENOENT' ? 'no such file' : errorMessage(error);
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
  const { files, split } = chooseFiles(path, paths, readme, splitChoice(spec, null));
  return {
    files: files.map((file) => ({ path: join(path, file), label: join(path, file) })),
    split,
    pinned: null,
  };
}

/**
 * Reads a data set whole. The texts of its problems are kept; solutions and other columns are not.
 *
 * @throws BAD_CONFIG for a name, split, configuration or level that does not exist; BAD_INPUT for files and rows that
 * cannot be read, with file and line
 */
export async function loadDataset(spec: DatasetSpec): Promise<Dataset> {
  const place = resolveDatasetName(spec.name);
  if (place.kind === 'tiny') return guarded(tinyDataset(spec.split, spec.seed));
  const known = place.kind === 'hub' ? place.known : null;
  let located: Located;
  if (place.kind === 'path') {
    located = await locatePath(place.path, spec);
  } else {
    const { signal, onProgress, onNotice } = spec;
    const fetched = await fetchSplit(place, splitChoice(spec, known), { signal, onProgress, onNotice });
    located = { ...fetched, pinned: `${spec.name.split('@')[0]}@${fetched.revision}` };
  }
  const { problems, report } = await collectProblems(spec.name, located.files, {
    columns: { ...known?.columns, ...spec.columns },
    skipBadRows: spec.skipBadRows ?? false,
    dropUnparsedGold: spec.dropUnparsedGold ?? spec.split === 'train',
    levels: spec.levels ?? null,
    signal: spec.signal,
  });
  const { split, pinned } = located;
  const source = { ...report, files: located.files.map(({ label }) => label), split, pinned };
  return guarded({ name: spec.name, size: problems.length, get: (index) => problems[index]!, source });
}
