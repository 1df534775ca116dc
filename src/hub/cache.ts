/**
 * The cache shared with the Python tools: `models--org--name/{blobs,refs,snapshots,trees}`. A blob is named
 * by its checksum, a snapshot is a folder of links to blobs, a ref holds the commit of a branch or tag, and a
 * tree is the listing of a commit, which never changes. Every file is written under a temporary name and then
 * renamed.
 */
import { randomBytes } from 'node:crypto';
import { readdir, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { errorCode } from '../base/errors';
import { makeFolders } from '../base/folders';
import { parsedJson } from '../base/json';
import { MAX_TEXT_BYTES, readRegularFile } from '../base/regular-file';
import { isCommit, type Repo } from './names';
import { type RemoteFile, storedTree, TREE_FORMAT } from './schemas';

async function unlessMissing<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return null;
    throw error;
  }
}

const readText = async (path: string): Promise<string> =>
  (await readRegularFile(path, MAX_TEXT_BYTES)).toString('utf8');

const temporaryName = (path: string): string => `${path}.${randomBytes(4).toString('hex')}.tmp`;

async function writeWhole(path: string, text: string): Promise<void> {
  makeFolders(dirname(path));
  const temporary = temporaryName(path);
  await writeFile(temporary, text);
  await rename(temporary, path);
}

/** The size of the file at a path, following links, or null if there is none. */
export async function sizeOf(path: string): Promise<number | null> {
  return (await unlessMissing(stat(path)))?.size ?? null;
}

export class RepoCache {
  /** The folder of this repository. */
  readonly folder: string;

  constructor(
    cacheDirectory: string,
    private readonly repo: Repo,
  ) {
    this.folder = join(cacheDirectory, `${repo.type}s--${repo.id.replace('/', '--')}`);
  }

  snapshot(commit: string): string {
    return join(this.folder, 'snapshots', commit);
  }

  blob(file: RemoteFile): string {
    return join(this.folder, 'blobs', file.sha256 ?? file.gitId);
  }

  /** The last commit known for the revision, or null. */
  async cachedCommit(): Promise<string | null> {
    const { revision } = this.repo;
    if (isCommit(revision)) return revision;
    const commit = (await unlessMissing(readText(join(this.folder, 'refs', revision))))?.trim();
    return commit !== undefined && isCommit(commit) ? commit : null;
  }

  async writeRef(commit: string): Promise<void> {
    const { revision } = this.repo;
    if (revision === commit || (await this.cachedCommit()) === commit) return;
    await writeWhole(join(this.folder, 'refs', revision), commit);
  }

  /** null when the listing was never fetched, or is in another version's format. */
  async readTree(commit: string): Promise<RemoteFile[] | null> {
    const text = await unlessMissing(readText(join(this.folder, 'trees', `${commit}.json`)));
    if (text === null) return null;
    // Ignore a truncated file; the listing can be fetched again.
    const tree = storedTree.safeParse(parsedJson(text));
    if (!tree.success) return null;
    return Object.entries(tree.data.files).map(([path, entry]) => ({
      path,
      size: entry.lfs_size ?? entry.size,
      gitId: entry.blob_id,
      sha256: entry.lfs_sha256 ?? null,
      xetHash: entry.xet_hash ?? null,
    }));
  }

  async writeTree(commit: string, files: readonly RemoteFile[]): Promise<void> {
    const entries = [...files]
      .sort((a, b) => (a.path < b.path ? -1 : 1))
      .map(({ path, size, gitId, sha256, xetHash }) => [
        path,
        {
          size,
          blob_id: gitId,
          ...(sha256 !== null && { lfs_sha256: sha256, lfs_size: size }),
          ...(xetHash !== null && { xet_hash: xetHash }),
        },
      ]);
    const tree = { format_version: TREE_FORMAT, files: Object.fromEntries(entries) as object };
    await writeWhole(join(this.folder, 'trees', `${commit}.json`), JSON.stringify(tree, null, 1));
  }

  /** Whether the snapshot has the file with the right size. */
  async has(commit: string, file: RemoteFile): Promise<boolean> {
    return (await sizeOf(join(this.snapshot(commit), file.path))) === file.size;
  }

  /** Every file of the snapshot, with `/` between folders, sorted. */
  async filesIn(commit: string): Promise<string[]> {
    const root = this.snapshot(commit);
    const names = (await unlessMissing(readdir(root, { recursive: true }))) ?? [];
    const found: string[] = [];
    for (const name of names) {
      if ((await unlessMissing(stat(join(root, name))))?.isFile() === true) found.push(name);
    }
    return found.sort();
  }

  /**
   * Puts the blob into the snapshot as a relative link, or moves the file there if the file system has no
   * links.
   */
  async link(commit: string, file: RemoteFile): Promise<void> {
    const pointer = join(this.snapshot(commit), file.path);
    const blob = this.blob(file);
    makeFolders(dirname(pointer));
    const temporary = temporaryName(pointer);
    try {
      await symlink(relative(dirname(pointer), blob), temporary);
    } catch (error) {
      if (!['EPERM', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP'].includes(errorCode(error) ?? '')) throw error;
      await rename(blob, pointer);
      return;
    }
    await rename(temporary, pointer).catch(async (error: unknown) => {
      await rm(temporary, { force: true });
      throw error;
    });
  }
}
