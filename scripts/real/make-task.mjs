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
import { randomFrom } from '../lib/random.cjs';
import { drawsOf, problemOf, verboseTrace } from './problems.mjs';

/** Problems of each level. */
const SIZES = { test: 60, traces: 600, train: 600 };

const { values } = scriptArguments(import.meta.url, {
  options: {
    out: { type: 'string', default: join('.cache', 'real', 'task') },
    seed: { type: 'string', default: '1' },
  },
});
const draws = drawsOf(randomFrom(Number(values.seed)));
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
