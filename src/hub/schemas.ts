/** What is accepted from a hub, and from the listings in the shared cache. */
import { z } from 'zod';
import { isCommit } from './names';

/** A file of a commit, as the hub lists it. */
export interface RemoteFile {
  path: string;
  /** Bytes. */
  size: number;
  /** git's blob id: SHA-1 of `blob <size>\0` and the content (for a file in LFS, of the pointer). */
  gitId: string;
  /** SHA-256 of the content, for a file in LFS. */
  sha256: string | null;
  xetHash: string | null;
}

const hex = (digits: number) => z.string().regex(new RegExp(`^[0-9a-f]{${digits}}$`));

/** `a/b.txt`: nothing that could leave a folder, name it in two ways, or change a terminal or a log. */
function isSafePath(path: string): boolean {
  const parts = path.split(/[/\\]/);
  return (
    path.length <= 1_024 && !/[\p{Cc}\p{Cs}]/u.test(path) && parts.every((part) => !/^\.{0,2}$/.test(part))
  );
}

const filePath = z.string().refine(isSafePath);
const byteCount = z.number().int().nonnegative();
/** A git blob's id. */
const gitId = hex(40);
const sha256 = hex(64);

const commitId = z.string().refine(isCommit);

/** What a revision points to. */
export const repoInfo = z.object({ sha: commitId });

/** The newest commit of a branch, and who may see it; some mirrors do not say. */
export const headInfo = z.object({ sha: commitId, private: z.boolean().nullish() });

const webAddress = z
  .string()
  .refine((text) => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol));

/** Answers to what `@huggingface/hub` asks while it pushes; what it does not read is not looked at. */
export const pushAnswers = {
  create: z.looseObject({ url: webAddress }),
  /** How each file is sent: in the commit itself or apart. */
  preupload: z.looseObject({
    files: z.array(z.looseObject({ path: filePath, uploadMode: z.enum(['lfs', 'regular']) })),
  }),
  /** Where each file that is sent apart goes; without an upload the hub has it already. */
  batch: z.looseObject({
    objects: z.array(
      z.looseObject({
        oid: sha256,
        actions: z
          .looseObject({
            upload: z
              .looseObject({ href: webAddress, header: z.record(z.string(), z.string()).nullish() })
              .nullish(),
          })
          .nullish(),
        error: z.looseObject({ code: z.number(), message: z.string() }).nullish(),
      }),
    ),
  }),
  commit: z.looseObject({ commitOid: commitId, commitUrl: webAddress }),
} as const;

/** A page of a listing. */
export const treePage = z.array(z.looseObject({ type: z.string() }));

/** An entry of type `file`; others (folders, submodules) are not read. */
export const treeFile = z
  .object({
    path: filePath,
    size: byteCount,
    oid: gitId,
    lfs: z.object({ oid: sha256, size: byteCount }).nullish(),
    // Not used here; kept for the tools that share the cache.
    xetHash: sha256.nullable().catch(null),
  })
  .transform(({ path, size, oid, lfs, xetHash }): RemoteFile => ({
    path,
    size: lfs?.size ?? size,
    gitId: oid,
    sha256: lfs?.oid ?? null,
    xetHash,
  }));

export const TREE_FORMAT = 1;

/** The listing of a commit in `trees/<commit>.json`; the field names are those of huggingface_hub. */
export const storedTree = z.object({
  format_version: z.literal(TREE_FORMAT),
  files: z.record(
    filePath,
    z.object({
      size: byteCount,
      blob_id: gitId,
      lfs_sha256: sha256.optional(),
      lfs_size: byteCount.optional(),
      xet_hash: sha256.optional(),
    }),
  ),
});
