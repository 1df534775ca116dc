/**
 * The two presets of the embedded task crossed, so that a reward is never compared with another one under
 * other settings (docs/tiny.md has the table):
 *
 *   node scripts/studies/crossed-study.mjs record FOLDER [--seeds 3001-3003] [--rewards acoer,grpo-lp] [--jobs 2]
 *   node scripts/studies/crossed-study.mjs table FOLDER
 *
 * `record` trains every reward at both rates (`tiny`: 1.2e-3 on a cosine, `slide`: 1.5e-3 constant) with both
 * epsilons (0.2, 1e-4), one thread each; existing runs are kept. `table` prints sampled accuracy and thinking
 * tokens at the end, seed by seed. Needs `npm run build`.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { recordRuns, seedsOf } from '../lib/study.mjs';
import { scriptArguments } from '../lib/arguments.mjs';

const RATES = { tiny: '`tiny`: 1.2e-3, cosine', slide: '`slide`: 1.5e-3, constant' };
const EPSILONS = ['0.2', '1e-4'];

const kindOf = (preset, epsilon, reward) => `${preset}_${epsilon}_${reward}`;

/** `recordRuns` names a run's folder `<kind>-<seed>`. */
function runsByKind(folder) {
  const byKind = new Map();
  for (const name of readdirSync(folder).sort()) {
    const file = join(folder, name, 'summary.json');
    if (!existsSync(file)) continue;
    const kind = name.slice(0, name.lastIndexOf('-'));
    const { trained } = JSON.parse(readFileSync(file, 'utf8'));
    byKind.set(kind, [...(byKind.get(kind) ?? []), trained]);
  }
  return byKind;
}

function printTable(folder) {
  const byKind = runsByKind(folder);
  if (byKind.size === 0) {
    console.error(`${folder} has no finished run; record some first.`);
    process.exit(2);
  }
  const rewards = [...new Set([...byKind.keys()].map((kind) => kind.split('_')[2]))].sort();
  console.log('| rate and schedule | epsilon | reward | sampled accuracy, % | thinking tokens | greedy, % |');
  console.log('| --- | --- | --- | --- | --- | --- |');
  for (const [preset, rate] of Object.entries(RATES)) {
    for (const epsilon of EPSILONS) {
      for (const reward of rewards) {
        const runs = byKind.get(kindOf(preset, epsilon, reward));
        if (runs === undefined) continue;
        const each = (figure) => runs.map((run) => figure(run).toFixed(1)).join(', ');
        const cells = [
          each((run) => 100 * run.sampled.accuracy),
          each((run) => run.sampled.thinkingTokens),
          each((run) => 100 * run.greedy.accuracy),
        ];
        console.log(`| ${rate} | ${epsilon} | \`${reward}\` | ${cells.join(' | ')} |`);
      }
    }
  }
}

const { positionals, values } = scriptArguments(import.meta.url, {
  allowPositionals: true,
  options: {
    seeds: { type: 'string', default: '3001-3003' },
    rewards: { type: 'string', default: 'acoer,grpo-lp,beta0,acc' },
    jobs: { type: 'string', default: '2' },
  },
});
const [command, folder] = positionals;
if (folder === undefined || !['record', 'table'].includes(command)) {
  console.error(
    'usage: node scripts/studies/crossed-study.mjs record|table FOLDER [--seeds 3001-3003] [--rewards acoer,grpo-lp]',
  );
  process.exit(2);
}
if (command === 'table') printTable(folder);
else {
  const runs = values.rewards.split(',').flatMap((reward) =>
    seedsOf(values.seeds).flatMap((seed) =>
      Object.keys(RATES).flatMap((preset) =>
        EPSILONS.map((epsilon) => ({
          kind: kindOf(preset, epsilon, reward),
          preset,
          seed,
          set: [`advantageEpsilon=${epsilon}`, `reward=${reward}`],
        })),
      ),
    ),
  );
  await recordRuns(folder, runs, Number(values.jobs));
}
