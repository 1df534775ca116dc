/**
 * The task of the study on a real model: arithmetic and short word problems, and long worked solutions.
 *
 *   node scripts/real/make-task.mjs [--out DIR] [--seed N]
 *
 *   --out DIR   folder (.cache/real/task): traces.jsonl for `acoer sft`, train.jsonl and test.jsonl for `acoer train`;
 *               no problem is in two of them
 *   --seed N    of all three (1)
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { scriptArguments } from '../lib/arguments.mjs';
import { drawsOf, problemOf, verboseTrace } from './problems.mjs';

/** Problems of each level. */
const SIZES = { test: 60, traces: 600, train: 600 };

/** Uniform numbers on [0, 1): mulberry32. */
function uniformOf(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const { values } = scriptArguments(import.meta.url, {
  options: {
    out: { type: 'string', default: join('.cache', 'real', 'task') },
    seed: { type: 'string', default: '1' },
  },
});
const draws = drawsOf(uniformOf(Number(values.seed)));
const used = new Set();
mkdirSync(values.out, { recursive: true });
for (const [name, size] of Object.entries(SIZES)) {
  const rows = [];
  for (let i = 0; i < 5 * size; i++) {
    const level = 1 + (i % 5);
    let found = problemOf(level, draws);
    while (used.has(found.problem)) found = problemOf(level, draws);
    used.add(found.problem);
    const { problem, answer } = found;
    const row = { id: `${name}-${i}`, level: String(level), problem, answer: String(answer) };
    rows.push(name === 'traces' ? { ...row, solution: verboseTrace(found, draws) } : row);
  }
  writeFileSync(join(values.out, `${name}.jsonl`), rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
}
