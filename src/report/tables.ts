/** The tables of a report. */
import type { Config } from '../config';
import { nearestPreset, trainCommand } from '../config';
import type { EvalSummary, Interval } from '../eval';
import { grouped, percent } from '../base/text';
import { accuracyInterval, kindName, type BeforeAfter } from './evaluations';
import { markup, joined, type Html } from './html';
import type { Mark } from './marks';

const NUMBER = markup` class="number"`;

/** A table whose first column names its rows; all others are numbers. */
export function numberTable(
  caption: string,
  head: readonly string[],
  rows: readonly (readonly (string | Html)[])[],
): Html {
  return markup`<div class="scroll" tabindex="0" role="group" aria-label="${caption}">
    <table>
      <caption class="muted">
        ${caption}
      </caption>
      <thead>
        <tr>
          ${head.map((name, i) => markup`<th scope="col" ${i === 0 ? null : NUMBER}>${name}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            markup`<tr>
              ${row.map((cell, i) =>
                i === 0 ? markup`<th scope="row">${cell}</th>` : markup`<td class="number">${cell}</td>`,
              )}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** `88.4%`, with its interval for a hover or a screen reader. */
const accuracyCell = (summary: Pick<EvalSummary, 'accuracy' | 'n'>): Html => {
  const { low, high } = accuracyInterval(summary);
  return markup`${percent(summary.accuracy)}
    <span class="muted range">[${(100 * low).toFixed(1)}, ${(100 * high).toFixed(1)}]</span>`;
};

export const tokens = (value: number): string =>
  value >= 1000 ? grouped(Math.round(value)) : value.toFixed(1);

/** `-62.3%` of `before`, green when shorter. */
export function changeCell(before: number, after: number): Html {
  if (before === 0) return markup`–`;
  const change = after / before - 1;
  const text = `${change > 0 ? '+' : ''}${(100 * change).toFixed(1)}%`;
  return markup`<span class="${change <= 0 ? 'good' : 'bad'}">${text}</span>`;
}

/** A difference of two shares in points, with its sign. */
export const points = (share: number): string => `${share >= 0 ? '+' : ''}${(100 * share).toFixed(1)}`;

/** Difference of two accuracies in points. */
export const pointsCell = (difference: number, interval?: Interval): Html => {
  const range =
    interval === undefined
      ? null
      : markup` <span class="muted range">[${points(interval.low)}, ${points(interval.high)}]</span>`;
  return markup`${points(difference)}${range}`;
};

export const pCell = (p: number): string => (p < 0.001 ? '< 0.001' : p.toFixed(3));

/** The paper's table 4: every level before and after. */
export function levelsHtml({ kind, base, trained }: BeforeAfter): Html {
  const row = (
    name: string,
    a: Pick<EvalSummary, 'accuracy' | 'n' | 'totalTokens' | 'thinkingTokens'>,
    b: typeof a,
  ) => [
    name,
    String(b.n),
    accuracyCell(a),
    accuracyCell(b),
    tokens(a.thinkingTokens),
    tokens(b.thinkingTokens),
    tokens(a.totalTokens),
    tokens(b.totalTokens),
    changeCell(a.totalTokens, b.totalTokens),
  ];
  const levels = Object.keys(base.perLevel).filter((level) => trained.perLevel[level] !== undefined);
  return numberTable(
    `By level, ${kindName(kind)}; accuracy with its 95% interval`,
    [
      'level',
      'n',
      'accuracy before',
      'after',
      'thinking before',
      'after',
      'tokens before',
      'after',
      'change',
    ],
    [
      ...levels.map((level) => row(level, base.perLevel[level]!, trained.perLevel[level]!)),
      row('all', base, trained),
    ],
  );
}

/** Lengths of correct and of wrong answers before and after. */
export function correctnessHtml({ kind, base, trained }: BeforeAfter): Html {
  const row = (name: string, of: 'correct' | 'incorrect') => [
    name,
    grouped(base[of].n),
    grouped(trained[of].n),
    tokens(base[of].thinkingTokens),
    tokens(trained[of].thinkingTokens),
    changeCell(base[of].thinkingTokens, trained[of].thinkingTokens),
    tokens(base[of].totalTokens),
    tokens(trained[of].totalTokens),
  ];
  return numberTable(
    `Correct and wrong answers, ${kindName(kind)}`,
    ['answers', 'n before', 'after', 'thinking before', 'after', 'change', 'tokens before', 'after'],
    [row('correct', 'correct'), row('wrong', 'incorrect')],
  );
}

export function marksHtml(marks: readonly Mark[]): Html {
  if (marks.length === 0)
    return markup`<p>The monitor saw nothing unusual, and no step was refused or taken back.</p>`;
  return markup`<ul class="marks">
    ${marks.map(({ kind, text }) => markup`<li class="${kind}">${text}</li>`)}
  </ul>`;
}

const json = (value: unknown): string => JSON.stringify(value) ?? 'not set';

export function allSettingsHtml(settings: object): Html {
  const rows = Object.entries(settings).map(
    ([name, value]) =>
      markup`<tr>
        <th scope="row"><code>${name}</code></th>
        <td><code>${json(value)}</code></td>
      </tr>`,
  );
  return markup`<details>
    <summary>All settings</summary>
    <div class="scroll" tabindex="0" role="group" aria-label="All settings">
      <table>
        ${rows}
      </table>
    </div>
  </details>`;
}

/** What differs from the nearest preset, the command that repeats the run, and all settings. */
export function configurationHtml(config: Config): Html {
  const { preset, settings } = nearestPreset(config);
  const own = settings.map(
    ([name, value]) =>
      markup`<tr>
        <th scope="row"><code>${name}</code></th>
        <td><code>${json(value)}</code></td>
      </tr>`,
  );
  return joined([
    own.length === 0
      ? markup`<p>All settings are those of the preset <code>${preset}</code>.</p>`
      : markup`<p>Different from the preset <code>${preset}</code>:</p>
          <div class="scroll" tabindex="0" role="group" aria-label="Settings that differ">
            <table>
              ${own}
            </table>
          </div>`,
    allSettingsHtml(config),
    markup`<p>To repeat the run:</p>
      <pre tabindex="0">${trainCommand(config)}</pre>`,
  ]);
}
