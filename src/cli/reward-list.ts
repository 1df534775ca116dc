/** `acoer reward --list`: the paper's taxonomy of every known reward. */
import { listRewards } from '../rewards';
import type { RewardDefinition } from '../rewards';
import { formatTable } from './table';

const yes = (value: boolean) => (value ? 'yes' : 'no');

function row({ name, formula, taxonomy, source }: RewardDefinition): string[] {
  const columns =
    taxonomy === undefined
      ? ['?', '?', '?', '?', '?', '?']
      : [
          taxonomy.correct,
          taxonomy.incorrect,
          yes(taxonomy.bounded),
          yes(taxonomy.continuous),
          yes(taxonomy.adaptive),
          taxonomy.scope,
        ];
  return [name, ...columns, formula, source];
}

const HEADER = [
  'reward',
  'correct',
  'incorrect',
  'bounded',
  'continuous',
  'adaptive',
  'scope',
  'formula',
  'source',
];

function details({ name, summary, formula, source, defaults }: RewardDefinition): string[] {
  const parameters = Object.entries(defaults).map(([key, value]) => `  ${key} = ${String(value)}`);
  return ['', `${name}: ${summary}`, `  r = ${formula}`, `  source: ${source}`, ...parameters];
}

/** The table, with one reward's parameters under it when it is named. */
export function rewardTable(named: string | undefined): string {
  const rewards = listRewards();
  const chosen = rewards.filter(({ name }) => named === undefined || name === named);
  const table = formatTable([HEADER, ...chosen.map(row)], HEADER.length);
  const explained = named === undefined ? [] : chosen.flatMap(details);
  return [table, ...explained].join('\n');
}

/** The same as data. */
export function rewardRecords(named: string | undefined) {
  return listRewards()
    .filter(({ name }) => named === undefined || name === named)
    .map(({ name, summary, formula, source, defaults, taxonomy }) => ({
      name,
      summary,
      formula,
      source,
      defaults,
      ...taxonomy,
    }));
}
