/** A browser of completions: filters and search on top, a list, and the chosen completion beside it. */
import { partsOf } from '../../base/transcript';
import type { ShownCompletion, ShownCompletions } from '../shown';
import { fill, h, setText } from './dom';
import { renderMath } from './math';

/** Rows shown at first, and more with each press of a button. */
const PAGE_ROWS = 100;

const number = (value: number): string => value.toLocaleString('en-US', { maximumFractionDigits: 3 });

/** Numbers of a completion that it is chosen or ordered by. */
type Amount = 'step' | 'thinkingTokens' | 'reward';

/** Something that completions are chosen by. */
interface Filter {
  element: HTMLElement;
  /** Whether the completion is among those wanted. */
  keeps: (row: ShownCompletion) => boolean;
}

/** What the tables of completions are of. */
export const SOURCES: Readonly<Record<ShownCompletion['from'], string>> = {
  training: 'training',
  greedy: 'evaluation, greedy',
  sampled: 'evaluation, sampled',
};

const VERDICTS = [
  ['correct', 'correct'],
  ['incorrect', 'incorrect'],
  ['unparseable', 'unparseable'],
  ['timeout', 'timeout'],
  ['cut', 'cut off at the limit'],
] as const;

const ORDERS = [
  ['step', 'step'],
  ['-step', 'step, newest first'],
  ['thinkingTokens', 'thinking, shortest first'],
  ['-thinkingTokens', 'thinking, longest first'],
  ['-reward', 'reward, highest first'],
  ['reward', 'reward, lowest first'],
] as const;

const options = (choices: readonly (readonly [value: string, name: string])[]): HTMLElement[] =>
  choices.map(([value, name]) => h('option', { value }, name));

// Without the label its name would include the options.
const select = (label: string, ...choices: HTMLElement[]) => h('select', { 'aria-label': label }, ...choices);

const labelled = (name: string, input: HTMLElement): HTMLElement => h('label', {}, name, input);

function choice(
  name: string,
  choices: readonly (readonly [value: string, name: string])[],
  matches: (row: ShownCompletion, value: string) => boolean,
): Filter {
  const input = select(name, ...options([['', 'all'], ...choices]));
  const keeps = (row: ShownCompletion) => input.value === '' || matches(row, input.value);
  return { element: labelled(name, input), keeps };
}

/** @param labels of the lower and the upper bound */
function range(name: string, labels: readonly [string, string], amount: Amount): Filter {
  const [from, to] = labels.map((label) =>
    h('input', { type: 'number', step: 'any', 'aria-label': label }),
  ) as [HTMLInputElement, HTMLInputElement];
  const keeps = (row: ShownCompletion): boolean => {
    if (from.value === '' && to.value === '') return true;
    const value = row[amount];
    if (value === null) return false;
    return (
      (from.value === '' || value >= Number(from.value)) && (to.value === '' || value <= Number(to.value))
    );
  };
  return { element: labelled(name, h('span', {}, from, ' to ', to)), keeps };
}

function search({ problems }: ShownCompletions): Filter {
  const input = h('input', {
    type: 'search',
    placeholder: 'text, problem, answer',
    'aria-label': 'Search',
  });
  const keeps = (row: ShownCompletion): boolean => {
    const words = input.value.trim().toLowerCase();
    const { prompt, id, gold } = problems[row.problem]!;
    return (
      words === '' || [row.text, prompt, id, gold ?? ''].some((text) => text.toLowerCase().includes(words))
    );
  };
  return { element: labelled('Search', input), keeps };
}

/** A filter that cannot tell completions apart is left out. */
function filtersFor(data: ShownCompletions): Filter[] {
  const { completions, runs } = data;
  const differ = (of: keyof ShownCompletion) => new Set(completions.map((row) => row[of])).size > 1;
  const runNames = runs.map((name, i) => [String(i), name] as const);
  const filters = [
    search(data),
    differ('run') && choice('Run', runNames, (row, value) => row.run === Number(value)),
    differ('from') && choice('From', Object.entries(SOURCES), (row, value) => row.from === value),
    choice('Verdict', VERDICTS, (row, value) =>
      value === 'cut' ? row.finish === 'length' : row.status === value,
    ),
    differ('step') && range('Steps', ['Smallest step', 'Largest step'], 'step'),
    range('Thinking tokens', ['Fewest thinking tokens', 'Most thinking tokens'], 'thinkingTokens'),
    differ('reward') && range('Reward', ['Smallest reward', 'Largest reward'], 'reward'),
  ];
  return filters.filter((filter) => filter !== false);
}

function sorted(rows: ShownCompletion[], order: string): ShownCompletion[] {
  const descending = order.startsWith('-');
  const key = order.replace('-', '') as Amount;
  const of = (row: ShownCompletion) => row[key] ?? -Infinity;
  return rows.sort((a, b) => (descending ? of(b) - of(a) : of(a) - of(b)));
}

const verdictMark = (row: ShownCompletion): HTMLElement =>
  h('span', { class: row.correct ? 'good' : 'bad' }, row.correct ? '✓ correct' : `✕ ${row.status}`);

function factsOf(row: ShownCompletion, data: ShownCompletions): string {
  const { level, id } = data.problems[row.problem]!;
  const facts = [
    data.runs.length > 1 ? data.runs[row.run]! : null,
    row.from === 'training' ? `step ${row.step}` : `${row.from} evaluation after step ${row.step}`,
    `problem ${id}`,
    level === null ? null : `level ${level}`,
    `${number(row.thinkingTokens)} thinking, ${number(row.totalTokens)} tokens`,
    row.reward === null ? null : `reward ${number(row.reward)}`,
  ];
  return facts.filter((fact) => fact !== null).join(' · ');
}

/** The text in its parts, and everything known about it. */
function detailOf(row: ShownCompletion, data: ShownCompletions): HTMLElement {
  const problem = data.problems[row.problem]!;
  const { before, thinking, answer } = partsOf(row.text, row.thinkOpened);
  const parts = Object.entries(row.parts).map(([name, value]) => `${name} ${number(value)}`);
  const facts = [
    factsOf(row, data),
    ...(parts.length > 0 ? [`parts: ${parts.join(', ')}`] : []),
    ...(row.advantage === null ? [] : [`advantage ${number(row.advantage)}`]),
    ...Object.entries(row.columns).flatMap(([name, value]) =>
      value === null ? [] : [`${name} ${typeof value === 'number' ? number(value) : value}`],
    ),
    ...(row.finish === 'length' ? ['cut off at the limit'] : []),
  ];
  const prompt = h('div', { class: 'problem' }, problem.prompt);
  const end = h('div', { class: 'answer-text' }, `${before}${answer}`.trim());
  const shown = h(
    'article',
    { class: 'completion' },
    h('h3', {}, verdictMark(row)),
    h('p', { class: 'muted' }, facts.join(' · ')),
    prompt,
    h(
      'p',
      { class: 'muted' },
      `Reference: ${problem.gold ?? 'none'}; answer found: ${row.extracted ?? 'none'}`,
    ),
    h(
      'div',
      { class: 'thinking-text', tabindex: 0, role: 'group', 'aria-label': 'Thinking' },
      thinking ?? '',
    ),
    end,
  );
  renderMath(prompt);
  renderMath(end);
  return shown;
}

/** Fills `root`. */
export function mountCompletions(root: HTMLElement, data: ShownCompletions): void {
  const filters = filtersFor(data);
  const order = select('Order', ...options(ORDERS));
  const controls = h(
    'div',
    { class: 'row filters' },
    ...filters.map(({ element }) => element),
    labelled('Order', order),
  );
  const count = h('p', { class: 'muted', role: 'status' });
  const list = h('ul', { class: 'rows', 'aria-label': 'Completions' });
  const detail = h('div', { 'aria-live': 'polite' });
  let limit = PAGE_ROWS;
  let current: HTMLElement | null = null;

  const open = (row: ShownCompletion, button: HTMLElement) => {
    current?.removeAttribute('aria-current');
    button.setAttribute('aria-current', 'true');
    current = button;
    fill(detail, detailOf(row, data));
  };
  const item = (row: ShownCompletion) => {
    const question = h('span', { class: 'one-line muted' }, data.problems[row.problem]!.prompt.slice(0, 200));
    const button = h('button', { type: 'button' }, verdictMark(row), ` ${factsOf(row, data)}`, question);
    button.addEventListener('click', () => open(row, button));
    return h('li', {}, button);
  };
  const show = () => {
    const found = data.completions.filter((row) => filters.every(({ keeps }) => keeps(row)));
    const rows = sorted(found, order.value).slice(0, limit);
    setText(count, `${number(found.length)} of ${number(data.completions.length)} completions`);
    fill(list, ...rows.map(item));
    if (found.length > rows.length) {
      const more = h('button', { type: 'button' }, `Show ${PAGE_ROWS} more`);
      more.addEventListener('click', () => {
        limit += PAGE_ROWS;
        show();
      });
      list.append(h('li', {}, more));
    }
    fill(detail);
    list.querySelector('button')?.click();
  };
  controls.addEventListener('input', () => {
    limit = PAGE_ROWS;
    show();
  });
  root.replaceChildren(controls, count, h('div', { class: 'browser' }, list, detail));
  show();
}
