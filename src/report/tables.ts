/** The tables of a report. */
import { nearestPreset, trainCommand, type Config } from '../config';
import type { EvalSummary, Interval } from '../eval';
import { grouped, percent } from '../base/text';
import { accuracyInterval, kindName, type BeforeAfter } from './evaluations';
import { markup, type Html } from './html';
import type { Mark } from './shown';

const NUMBER = markup` class="number"`;

/** A table whose first column names its rows; all others are numbers. */
export function numberTable(
  caption: string,
  head: readonly string[],
  rows: readonly (readonly (string | Html)[])[],
): Html {
  return markup`<div class="scroll" tabindex="0" role="group" aria-label="${caption}">
    <table>
      <caption>${caption}</caption>
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

const rangeHtml = (low: string, high: string): Html =>
  markup`<span class="muted range">[${low}, ${high}]</span>`;

/** `88.4%` and its interval. */
export const accuracyCell = (summary: Pick<EvalSummary, 'accuracy' | 'n'>): Html => {
  const { low, high } = accuracyInterval(summary);
  return markup`${percent(summary.accuracy)}
    ${rangeHtml((100 * low).toFixed(1), (100 * high).toFixed(1))}`;
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
export const pointsCell = (difference: number, { low, high }: Interval): Html =>
  markup`${points(difference)} ${rangeHtml(points(low), points(high))}`;

export const pCell = (p: number): string => (p < 0.001 ? '< 0.001' : p.toFixed(3));

/** The levels of both evaluations, with their summaries before and after. */
export function levelsOf(base: EvalSummary, trained: EvalSummary) {
  return Object.entries(base.perLevel).flatMap(([level, before]) => {
    const after = trained.perLevel[level];
    return after === undefined ? [] : [[level, before, after] as const];
  });
}

/** The paper's table 4: every level before and after. */
export function levelsHtml({ kind, base, trained }: BeforeAfter): Html {
  const row = (name: string, a: EvalSummary['perLevel'][string], b: typeof a) => [
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
  const names = ['accuracy', 'thinking', 'tokens'].flatMap((name) => [`${name} before`, 'after']);
  return numberTable(
    `By level, ${kindName(kind)}; accuracy with its 95% interval`,
    ['level', 'n', ...names, 'change'],
    [...levelsOf(base, trained).map(([level, a, b]) => row(level, a, b)), row('all', base, trained)],
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

function settingsTable(label: string, settings: readonly (readonly [string, unknown])[]): Html {
  const rows = settings.map(
    ([name, value]) =>
      markup`<tr>
        <th scope="row"><code>${name}</code></th>
        <td><code>${JSON.stringify(value) ?? 'not set'}</code></td>
      </tr>`,
  );
  return markup`<div class="scroll" tabindex="0" role="group" aria-label="${label}">
    <table>
      ${rows}
    </table>
  </div>`;
}

export const allSettingsHtml = (settings: object): Html =>
  markup`<details>
    <summary>All settings</summary>
    ${settingsTable('All settings', Object.entries(settings))}
  </details>`;

/** What differs from the nearest preset, the command that repeats the run, and all settings. */
export function configurationHtml(config: Config): Html {
  const { preset, settings } = nearestPreset(config);
  const different =
    settings.length === 0
      ? markup`<p>All settings are those of the preset <code>${preset}</code>.</p>`
      : markup`<p>Different from the preset <code>${preset}</code>:</p>
          ${settingsTable('Settings that differ', settings)}`;
  return markup`${different}
    ${allSettingsHtml(config)}
    <p>To repeat the run:</p>
    <pre tabindex="0">${trainCommand(config)}</pre>`;
}
