/** `acoer reward --list`: the paper's taxonomy of every known reward. */
import { listRewards, type RewardDefinition } from '../rewards';
import { formatTable } from './table';
import { wrapWords } from './view/text';

const yes = (value: boolean) => (value ? 'yes' : 'no');

function row({ name, taxonomy }: RewardDefinition): string[] {
  if (taxonomy === undefined) return [name, '?', '?', '?', '?', '?', '?'];
  const { correct, incorrect, bounded, continuous, adaptive, scope } = taxonomy;
  return [name, correct, incorrect, yes(bounded), yes(continuous), yes(adaptive), scope];
}

const HEADER = ['reward', 'correct', 'incorrect', 'bounded', 'continuous', 'adaptive', 'scope'];

function details(
  { name, summary, formula, source, defaults }: RewardDefinition,
  width: number,
  full: boolean,
): string[] {
  const parameters = Object.entries(full ? defaults : {}).map(([key, value]) => `${key} = ${String(value)}`);
  const wrapped = (text: string) => wrapWords(`  ${text}`, width, '    ');
  return [
    '',
    ...wrapWords(`${name}: ${summary}`, width, '  '),
    ...wrapped(`r = ${formula}`),
    ...wrapped(`source: ${source}`),
    ...(parameters.length === 0 ? [] : wrapped(`parameters: ${parameters.join(', ')}`)),
  ];
}

const chosen = (names: readonly string[] | undefined): readonly RewardDefinition[] =>
  listRewards().filter(({ name }) => names === undefined || names.includes(name));

/** A table of how each reward presses on length, then each in words, with parameters if named. */
export function rewardTable(names: readonly string[] | undefined, width: number): string {
  const rewards = chosen(names);
  const table = formatTable([HEADER, ...rewards.map(row)], HEADER.length);
  return [table, ...rewards.flatMap((reward) => details(reward, width, names !== undefined))].join('\n');
}

/** The same information as data. */
export function rewardRecords(names: readonly string[] | undefined) {
  return chosen(names).map(({ name, summary, formula, source, defaults, taxonomy }) => ({
    name,
    summary,
    formula,
    source,
    defaults,
    ...taxonomy,
  }));
}
