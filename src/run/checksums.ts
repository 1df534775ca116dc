/** SHA256SUMS of a folder, in the format of coreutils: `sha256sum -c SHA256SUMS` can check it too. */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { errorCode, whyUnreadable } from '../base/errors';
import { NOT_REGULAR, openRegularFile, readTextSync, sha256Of } from '../base/regular-file';

const SUMS = 'SHA256SUMS';
/** A folder has some ten files. */
const MAX_SUMS_BYTES = 1 << 20;

/** SHA-256 in hex of the file at `path`. */
export const fileSha256 = async (path: string): Promise<string> =>
  sha256Of((await openRegularFile(path)).file);

/** Writes the sums of all files in `directory`; call it last. */
export async function writeChecksums(directory: string): Promise<void> {
  const lines: string[] = [];
  for (const name of readdirSync(directory).sort()) {
    lines.push(`${await fileSha256(join(directory, name))}  ${name}\n`);
  }
  writeFileSync(join(directory, SUMS), lines.join(''));
}

/**
 * What is wrong with a folder of files: it is not what was written (`damaged`), or it may well be but cannot be
 * read, for want of a permission (`forbidden`) or because the disk fails, perhaps not for ever (`failed`).
 */
export interface FolderProblem {
  kind: 'damaged' | 'forbidden' | 'failed';
  text: string;
}

/** Nothing, or something that is no file, has the file's name. */
const NO_FILE = new Set(['ENOENT', 'ENOTDIR', 'EISDIR', 'ELOOP', 'ENXIO', NOT_REGULAR]);
const FORBIDDEN = new Set(['EACCES', 'EPERM']);

function readProblem(name: string, error: unknown): FolderProblem {
  const code = errorCode(error);
  if (code === undefined) throw error;
  if (code === 'ENOENT') return wrong(`${name} is missing`);
  const text = `${name} cannot be read: ${whyUnreadable(error)}`;
  if (NO_FILE.has(code)) return wrong(text);
  return { kind: FORBIDDEN.has(code) ? 'forbidden' : 'failed', text };
}

const wrong = (text: string): FolderProblem => ({ kind: 'damaged', text });

/** The sums by file name, or what is wrong with the list. */
function readSums(path: string): Map<string, string> | FolderProblem {
  const sums = new Map<string, string>();
  for (const line of readTextSync(path, MAX_SUMS_BYTES).split('\n').slice(0, -1)) {
    const match = /^([0-9a-f]{64}) {2}([\w.-]+)$/.exec(line);
    if (match === null) return wrong(`${SUMS} is damaged`);
    sums.set(match[2]!, match[1]!);
  }
  return sums;
}

/** What is wrong with the folder, or null if every listed file can be read and matches its sum. */
export async function checksumProblem(
  directory: string,
  required: readonly string[],
): Promise<FolderProblem | null> {
  let name = SUMS;
  try {
    const sums = readSums(join(directory, SUMS));
    if (!(sums instanceof Map)) return sums;
    const unlisted = required.find((file) => !sums.has(file));
    if (unlisted !== undefined) return wrong(`${SUMS} does not list ${unlisted}`);
    for (const [file, sum] of sums) {
      name = file;
      if ((await fileSha256(join(directory, file))) !== sum)
        return wrong(`${file} does not match its checksum`);
    }
    return null;
  } catch (error) {
    return readProblem(name, error);
  }
}
