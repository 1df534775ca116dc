/** What llama.cpp says, in a process of its own (scripts/peers/llama-answers.mjs). */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './cli';

/** Where scripts/real/test installs it. */
const FOLDER = join(ROOT, '.cache', 'real', 'llama');
export const LLAMA = existsSync(join(FOLDER, 'node_modules', 'node-llama-cpp'));
export const LLAMA_NEEDED = 'node-llama-cpp, which npm run test:real installs';

export interface LlamaJob {
  path: string;
  lora?: string;
  prompts: number[][];
  newTokens: number;
  /** Whose log-probs from the id `from` on are wanted. */
  scored: { ids: number[]; from: number }[];
  texts: string[];
}

export interface LlamaAnswers {
  greedy: number[][];
  logprobs: number[][];
  tokens: number[][];
}

export function askLlama(jobs: readonly LlamaJob[]): LlamaAnswers[] {
  const folder = mkdtempSync(join(tmpdir(), 'acoer-llama-'));
  try {
    const [input, output] = [join(folder, 'jobs.json'), join(folder, 'answers.json')];
    writeFileSync(input, JSON.stringify({ folder: FOLDER, jobs }));
    const script = join(ROOT, 'scripts', 'peers', 'llama-answers.mjs');
    const { status, stderr } = spawnSync(process.execPath, [script, input, output], { encoding: 'utf8' });
    if (status !== 0) throw new Error(stderr);
    return JSON.parse(readFileSync(output, 'utf8')) as LlamaAnswers[];
  } finally {
    rmSync(folder, { recursive: true });
  }
}
