/** The weights of rank 0 become those of all, and are compared: through files, which a policy has for checkpoints. */
import { mkdtemp, rm, writeFile, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Ranks } from '.';
import { AcoerError } from '../base/errors';
import { openRegularFile, sha256Of } from '../base/regular-file';
import type { Policy } from '../engine/types';

const PART_BYTES = 1 << 24;

async function withFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'acoer-rank-'));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function partOf(file: FileHandle, at: number): Promise<Uint8Array> {
  const part = Buffer.alloc(PART_BYTES);
  const { bytesRead } = await file.read(part, 0, PART_BYTES, at);
  return part.subarray(0, bytesRead);
}

/** A file of rank 0 becomes one of every rank, at `path` on each. */
async function shareFile(ranks: Ranks, path: string): Promise<void> {
  const source = ranks.rank === 0 ? (await openRegularFile(path)).file : null;
  try {
    if (source === null) await writeFile(path, '');
    for (let at = 0; ; at += PART_BYTES) {
      const part = await ranks.fromFirst('the weights', () => partOf(source!, at));
      if (source === null) await writeFile(path, part, { flag: 'a' });
      if (part.length < PART_BYTES) return;
    }
  } finally {
    await source?.close();
  }
}

/**
 * Every rank's policy becomes that of rank 0, to the bit, with the state of its optimiser, of which a policy with a shard
 * keeps its own part.
 *
 * @param moments whether there is such a state
 * @param stored on rank 0: its file, whole
 */
export function shareWeights(ranks: Ranks, policy: Policy, moments: boolean, stored?: string): Promise<void> {
  return withFolder(async (folder) => {
    const weights = join(folder, 'weights');
    if (ranks.rank === 0) await policy.save(weights);
    await shareFile(ranks, weights);
    if (ranks.rank !== 0) await policy.restore(weights);
    await rm(weights);
    if (!moments) return;
    const optimizer = stored ?? join(folder, 'optimizer');
    await shareFile(ranks, optimizer);
    if (ranks.rank !== 0) await policy.restoreOptimizer(optimizer);
  });
}

async function fileHash(path: string): Promise<string> {
  const { file } = await openRegularFile(path);
  try {
    return await sha256Of(file);
  } finally {
    await file.close();
  }
}

/** @throws RANKS_DIVERGED naming the first rank whose weights are not those of rank 0 */
export async function compareWeights(ranks: Ranks, policy: Policy, step: number): Promise<void> {
  const all = await ranks.gather('the comparison of the weights', () =>
    withFolder(async (folder) => {
      const path = join(folder, 'weights');
      await policy.save(path);
      return fileHash(path);
    }),
  );
  const other = all.findIndex((hash) => hash !== all[0]);
  if (other === -1) return;
  throw new AcoerError(
    'RANKS_DIVERGED',
    `After step ${step} rank ${other} has other weights than rank 0, which cannot happen on equal processors and libraries: the run ends; --resume gives every rank those of rank 0 again.`,
  );
}
