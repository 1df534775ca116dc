/** The before/after table. */
import type { EvalSummary } from '../../eval';
import type { EvalKind, RunSummary } from '../../train';
import { percent } from '../../base/text';
import { alignTable } from '../table';
import { change } from './format';

type Figures = Pick<EvalSummary, 'accuracy' | 'thinkingTokens'>;

function figureRow(name: string, before: Figures, after: Figures): string[] {
  return [
    name,
    percent(before.accuracy),
    percent(after.accuracy),
    before.thinkingTokens.toFixed(1),
    after.thinkingTokens.toFixed(1),
    change(before.thinkingTokens, after.thinkingTokens),
  ];
}

function section(kind: EvalKind, before: EvalSummary, after: EvalSummary): string[] {
  const title =
    kind === 'greedy' ? `greedy (${after.n} problems)` : `sampled at temperature 1 (${after.n} problems)`;
  const header = ['', 'accuracy', 'trained', 'thinking', 'trained', ''];
  const levels = Object.keys(before.perLevel).filter((level) => after.perLevel[level] !== undefined);
  const rows = levels.map((level) =>
    figureRow(`level ${level}`, before.perLevel[level]!, after.perLevel[level]!),
  );
  return [title, ...alignTable([header, ...rows, figureRow('all', before, after)])];
}

/** The evaluations before and after, per level and in total, greedy and sampled if both were made. */
export function summaryTable({ base, trained }: RunSummary): string[] {
  const lines: string[] = [];
  for (const kind of ['greedy', 'sampled'] as const) {
    const before = base[kind];
    const after = trained[kind];
    if (before === null || after === null) continue;
    if (lines.length > 0) lines.push('');
    lines.push(...section(kind, before, after));
  }
  return lines;
}
