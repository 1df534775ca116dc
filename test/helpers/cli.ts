/**
 * Runs commands: mostly in this process, but as a separate process where signals, pipes or exit codes matter.
 */
import { spawn } from 'node:child_process';
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate, setTimeout } from 'node:timers/promises';

import { main } from '../../src/cli/main';
import { builtCli } from './built';

export { builtCli };

export const ROOT = join(__dirname, '..', '..');

export interface CommandResult {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Node warns once in a process of how Jest imports modules: before a command's output is taken, not amid it. */
let warned: Promise<void> | undefined;
const untilWarned = () => (warned ??= import('node:os').then(() => setImmediate()));

/** `acoer ...words` in this process. */
export async function acoer(...words: string[]): Promise<CommandResult> {
  await untilWarned();
  const out: string[] = [];
  const err: string[] = [];
  const capture = (stream: NodeJS.WriteStream, to: string[]): jest.SpyInstance =>
    jest.spyOn(stream, 'write').mockImplementation((chunk: unknown) => {
      to.push(String(chunk));
      return true;
    });
  const spies = [capture(process.stdout, out), capture(process.stderr, err)];
  process.exitCode = undefined;
  try {
    const code = await main(words);
    return { code, stdout: out.join(''), stderr: err.join('') };
  } finally {
    process.exitCode = undefined;
    for (const spy of spies) spy.mockRestore();
  }
}

/** The objects of a JSON Lines text. */
export function objects<T>(text: string): T[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T);
}

/** A file with these lines (objects become JSON) in a temporary folder. */
export function linesFile(lines: readonly unknown[]): string {
  const directory = mkdtempSync(join(tmpdir(), 'acoer-lines-'));
  const path = join(directory, 'lines.jsonl');
  const text = lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line)));
  writeFileSync(path, text.map((line) => `${line}\n`).join(''));
  return path;
}

/** `acoer ...words` as a separate process. */
export function spawnAcoer(...words: string[]): ChildProcessWithoutNullStreams {
  return spawn(process.execPath, [builtCli(), ...words], { cwd: ROOT });
}

/** The exit code of a process and what it wrote. */
export function ended(child: ChildProcessWithoutNullStreams): Promise<CommandResult> {
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stdout, stderr }));
  });
}

/** Waits for a state of files that a process writes. Its end before that is an error: what it said. */
export async function reached(
  child: ChildProcessWithoutNullStreams,
  end: Promise<CommandResult>,
  state: () => boolean,
): Promise<void> {
  while (!state()) {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error((await end).stderr);
    await setTimeout(1);
  }
}
