// Times from the import of the package to the end of a run's first step on the embedded model, each in a
// process of its own. Usage, after `npm run build`: node scripts/start-up.mjs [PROCESSES]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const entry = fileURLToPath(new URL('../dist/index.js', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'acoer-start-up-'));

const CHILD = `
const started = performance.now();
const { train } = require(process.argv[1]);
const since = () => Math.round(performance.now() - started);
const marks = { imported: since() };
(async () => {
  const run = await train({ preset: 'tiny', maxSteps: 1, evalProblems: 0, evalSampledProblems: 0 }, { out: process.argv[2] });
  marks.opened = since();
  for await (const step of run) marks['first step'] ??= since();
  console.log(JSON.stringify(marks));
})();
`;

const marks = Array.from({ length: Number(process.argv[2] ?? 5) }, (_, i) =>
  JSON.parse(
    execFileSync(process.execPath, ['-e', CHILD, entry, join(folder, String(i))], { encoding: 'utf8' }),
  ),
);
rmSync(folder, { recursive: true });
for (const name of Object.keys(marks[0])) {
  const sorted = marks.map((mark) => mark[name]).sort((a, b) => a - b);
  console.log(`${name}: ${sorted[sorted.length >> 1]} (${sorted[0]}-${sorted.at(-1)}) ms`);
}
