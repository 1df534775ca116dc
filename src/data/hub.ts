/** Files of a data set on the Hugging Face hub, through the cache all tools share. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AcoerError, errorMessage } from '../errors';
import { fetchSnapshot } from '../hub';
import type { DataFile } from './collect';
import { chooseFiles, holdsRows, type SplitChoice } from './files';

/** Where the hub keeps a Parquet copy of data sets that come as programs or in other formats. */
const PARQUET_COPY = 'refs/convert/parquet';
const CARD = 'README.md';

export interface HubSource {
  repo: string;
  /** A branch, a tag or a commit; null: the main branch. */
  revision: string | null;
}

export interface HubFiles {
  files: DataFile[];
  split: string;
  /** The commit that was read. */
  revision: string;
}

type FetchOptions = Omit<NonNullable<Parameters<typeof fetchSnapshot>[1]>, 'type' | 'revision' | 'accept'>;

interface Listing {
  paths: string[];
  readme: string | null;
  /** The commit. */
  revision: string;
}

/** All paths of a revision, and the text of its card. */
async function list(repo: string, revision: string | null, options: FetchOptions): Promise<Listing> {
  const paths: string[] = [];
  const snapshot = await fetchSnapshot(repo, {
    ...options,
    type: 'dataset',
    revision: revision ?? undefined,
    accept: (path) => {
      paths.push(path);
      return path === CARD;
    },
  });
  const readme = paths.includes(CARD) ? await readFile(join(snapshot.directory, CARD), 'utf8') : null;
  return { paths, readme, revision: snapshot.revision };
}

/** Without a revision, a repository without data files is read from its Parquet copy. */
async function listData({ repo, revision }: HubSource, options: FetchOptions): Promise<Listing> {
  const listing = await list(repo, revision, options);
  if (revision !== null || listing.paths.some(holdsRows)) return listing;
  try {
    return await list(repo, PARQUET_COPY, options);
  } catch (error) {
    throw new AcoerError(
      'BAD_INPUT',
      `${repo} has no data files of a format that is read, and no Parquet copy of them: ${errorMessage(error)}`,
      { cause: error },
    );
  }
}

/** Fetches the files of a split. */
export async function fetchSplit(
  source: HubSource,
  choice: SplitChoice,
  options: FetchOptions = {},
): Promise<HubFiles> {
  const { repo } = source;
  const { paths, readme, revision } = await listData(source, options);
  const { files, split } = chooseFiles(repo, paths, readme, choice);
  const wanted = new Set(files);
  // At the commit of the listing: the branch may move in between.
  const snapshot = await fetchSnapshot(repo, {
    ...options,
    type: 'dataset',
    revision,
    accept: (path) => wanted.has(path),
  });
  return {
    files: files.map((path) => ({ path: join(snapshot.directory, path), label: `${repo} ${path}` })),
    split,
    revision,
  };
}
