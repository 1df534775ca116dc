/** SHA256SUMS of a folder, in the format of coreutils: `sha256sum -c SHA256SUMS` can check it too. */
import { createHash } from 'node:crypto';
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const SUMS = 'SHA256SUMS';
const CHUNK_BYTES = 1 << 22;

function sha256(path: string): string {
  const hash = createHash('sha256');
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  const handle = openSync(path, 'r');
  try {
    for (let got; (got = readSync(handle, chunk)) > 0;) hash.update(chunk.subarray(0, got));
  } finally {
    closeSync(handle);
  }
  return hash.digest('hex');
}

/** Writes the sums of all files in `directory`; call it last. */
export function writeChecksums(directory: string): void {
  const lines = readdirSync(directory)
    .sort()
    .map((name) => `${sha256(join(directory, name))}  ${name}\n`);
  writeFileSync(join(directory, SUMS), lines.join(''));
}

/** What is wrong with the folder, or null if every listed file exists and matches its sum. */
export function checksumProblem(directory: string, required: readonly string[]): string | null {
  const path = join(directory, SUMS);
  if (!existsSync(path)) return `${SUMS} is missing`;
  const sums = new Map<string, string>();
  for (const line of readFileSync(path, 'utf8').split('\n').slice(0, -1)) {
    const match = /^([0-9a-f]{64}) {2}([\w.-]+)$/.exec(line);
    if (match === null) return `${SUMS} is damaged`;
    sums.set(match[2]!, match[1]!);
  }
  const unlisted = required.find((name) => !sums.has(name));
  if (unlisted !== undefined) return `${SUMS} does not list ${unlisted}`;
  for (const [name, sum] of sums) {
    if (!existsSync(join(directory, name))) return `${name} is missing`;
    if (sha256(join(directory, name)) !== sum) return `${name} does not match its checksum`;
  }
  return null;
}
