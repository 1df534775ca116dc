/** Files of a data set on the Hugging Face hub, through the cache that all tools share. */
import { join } from 'node:path';
import { badInput, errorMessage } from '../base/errors';
import { type FetchOptions, fetchSnapshot } from '../hub';
import type { DataFile } from './collect';
import { chooseFiles, holdsRows, readCard, type SplitChoice } from './files';

/** The branch on which the hub keeps a Parquet copy of data sets that are scripts or in other formats. */
const PARQUET_COPY = 'refs/convert/parquet';
const CARD = 'README.md';

export interface HubSource {
  repo: string;
  /** A branch, a tag or a commit; null means the main branch. */
  revision: string | null;
}

/** The files of a split. */
export interface Located {
  files: DataFile[];
  /** null for a file, which has no splits. */
  split: string | null;
  /** The commit that was read; null for files of this machine. */
  revision: string | null;
}

export type HubOptions = Pick<FetchOptions, 'onProgress' | 'onNotice' | 'signal'>;

interface Listing {
  paths: string[];
  readme: string | null;
  /** The commit; without a card, the requested revision. */
  revision: string | null;
}

const snapshotOf = (
  repo: string,
  revision: string | null,
  accept: (path: string) => boolean,
  options: HubOptions,
) => fetchSnapshot(repo, { ...options, type: 'dataset', revision: revision ?? undefined, accept });

/** All paths of a revision, and the text of its card. */
async function list(repo: string, revision: string | null, options: HubOptions): Promise<Listing> {
  const paths = new Set<string>();
  const accept = (path: string) => {
    paths.add(path);
    return path === CARD;
  };
  try {
    const snapshot = await snapshotOf(repo, revision, accept, options);
    const readme = await readCard(join(snapshot.directory, CARD));
    return { paths: [...paths], readme, revision: snapshot.revision };
  } catch (error) {
    // The listing succeeded; there is just no card to fetch.
    if (paths.size > 0 && !paths.has(CARD)) return { paths: [...paths], readme: null, revision };
    throw error;
  }
}

/** If no revision is given, a repository without data files is read from its Parquet copy. */
async function listData({ repo, revision }: HubSource, options: HubOptions): Promise<Listing> {
  const listing = await list(repo, revision, options);
  if (revision !== null || listing.paths.some(holdsRows)) return listing;
  try {
    return await list(repo, PARQUET_COPY, options);
  } catch (error) {
    throw badInput(
      `${repo} has no data files in a supported format and no Parquet copy of them: ${errorMessage(error)}`,
      error,
    );
  }
}

/** Fetches the files of a split into the shared cache; null if there is no such split and `orNone` is set. */
export async function fetchSplit(
  source: HubSource,
  choice: SplitChoice,
  options: HubOptions = {},
): Promise<Located | null> {
  const { repo } = source;
  const { paths, readme, revision } = await listData(source, options);
  const chosen = chooseFiles(repo, paths, readme, choice);
  if (chosen === null) return null;
  const { files, split } = chosen;
  const wanted = new Set(files);
  // Use the commit of the listing, since the branch may move in between.
  const snapshot = await snapshotOf(repo, revision, (path) => wanted.has(path), options);
  return {
    files: files.map((path) => ({ path: join(snapshot.directory, path), label: `${repo} ${path}` })),
    split,
    revision: snapshot.revision,
  };
}
