/** A browser of completions: filters and search on top, a list, and the chosen completion beside it. */
import { partsOf } from '../../base/transcript';
import type { ShownCompletion, ShownCompletions } from '../shown';
import { fill, h, setText } from './dom';
import { renderMath } from './math';

/** Rows shown at first, and more with each press of a button. */
const PAGE_ROWS = 100;

const number = (value: number): string => value.toLocaleString('en-US', { maximumFractionDigits: 3 });

interface Filters {
  run: HTMLSelectElement;
  from: HTMLSelectElement;
  verdict: HTMLSelectElement;
  stepFrom: HTMLInputElement;
  stepTo: HTMLInputElement;
  tokensFrom: HTMLInputElement;
  tokensTo: HTMLInputElement;
  rewardFrom: HTMLInputElement;
  rewardTo: HTMLInputElement;
  search: HTMLInputElement;
  order: HTMLSelectElement;
}

function choice(options: readonly (readonly [value: string, name: string])[]): HTMLSelectElement {
  return h('select', {}, ...options.map(([value, name]) => h('option', { value }, name)));
}

const bound = (label: string): HTMLInputElement =>
  h('input', { type: 'number', step: 'any', 'aria-label': label });

function filtersFor(data: ShownCompletions): Filters {
  return {
    run: choice([['', 'all'], ...data.runs.map((name, i) => [String(i), name] as const)]),
    from: choice([
      ['', 'all'],
      ['training', 'training'],
      ['greedy', 'evaluation, greedy'],
      ['sampled', 'evaluation, sampled'],
    ]),
    verdict: choice([
      ['', 'all'],
      ['correct', 'correct'],
      ['incorrect', 'incorrect'],
      ['unparseable', 'unparseable'],
      ['timeout', 'timeout'],
      ['cut', 'cut off at the limit'],
    ]),
    stepFrom: bound('Smallest step'),
    stepTo: bound('Largest step'),
    tokensFrom: bound('Fewest thinking tokens'),
    tokensTo: bound('Most thinking tokens'),
    rewardFrom: bound('Smallest reward'),
    rewardTo: bound('Largest reward'),
    search: h('input', { type: 'search', placeholder: 'text, problem, answer' }),
    order: choice([
      ['step', 'step'],
      ['-step', 'step, newest first'],
      ['thinkingTokens', 'thinking, shortest first'],
      ['-thinkingTokens', 'thinking, longest first'],
      ['-reward', 'reward, highest first'],
      ['reward', 'reward, lowest first'],
    ]),
  };
}

const labelled = (name: string, ...inputs: HTMLElement[]): HTMLElement => {
  if (inputs.length === 1) {
    // Without it the name would include the options.
    inputs[0]!.setAttribute('aria-label', name);
    return h('label', {}, name, inputs[0]!);
  }
  return h('label', {}, name, h('span', {}, inputs[0]!, ' to ', inputs[1]!));
};

function within(value: number | null, from: HTMLInputElement, to: HTMLInputElement): boolean {
  if (from.value === '' && to.value === '') return true;
  if (value === null) return false;
  return (from.value === '' || value >= Number(from.value)) && (to.value === '' || value <= Number(to.value));
}

function matches(row: ShownCompletion, data: ShownCompletions, filters: Filters, words: string): boolean {
  const { run, from, verdict } = filters;
  if (run.value !== '' && row.run !== Number(run.value)) return false;
  if (from.value !== '' && row.from !== from.value) return false;
  if (
    verdict.value === 'cut' ? row.finish !== 'length' : verdict.value !== '' && row.status !== verdict.value
  )
    return false;
  if (!within(row.step, filters.stepFrom, filters.stepTo)) return false;
  if (!within(row.thinkingTokens, filters.tokensFrom, filters.tokensTo)) return false;
  if (!within(row.reward, filters.rewardFrom, filters.rewardTo)) return false;
  if (words === '') return true;
  const problem = data.problems[row.problem]!;
  return [row.text, problem.prompt, problem.id, problem.gold ?? ''].some((text) =>
    text.toLowerCase().includes(words),
  );
}

function sorted(rows: ShownCompletion[], order: string): ShownCompletion[] {
  const descending = order.startsWith('-');
  const key = order.replace('-', '') as 'step' | 'thinkingTokens' | 'reward';
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
    const question = h('span', { class: 'question' }, data.problems[row.problem]!.prompt.slice(0, 200));
    const button = h('button', { type: 'button' }, verdictMark(row), ` ${factsOf(row, data)}`, question);
    button.addEventListener('click', () => open(row, button));
    return h('li', {}, button);
  };
  const show = () => {
    const words = filters.search.value.trim().toLowerCase();
    const found = data.completions.filter((row) => matches(row, data, filters, words));
    const rows = sorted(found, filters.order.value).slice(0, limit);
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
  for (const input of Object.values(filters) as HTMLElement[]) {
    input.addEventListener('input', () => {
      limit = PAGE_ROWS;
      show();
    });
  }
  const { run, from, verdict, search, order } = filters;
  // A filter that cannot tell completions apart is left out.
  const differ = (of: (row: ShownCompletion) => unknown) => new Set(data.completions.map(of)).size > 1;
  root.replaceChildren(
    h(
      'div',
      { class: 'filters' },
      labelled('Search', search),
      differ((row) => row.run) ? labelled('Run', run) : null,
      differ((row) => row.from) ? labelled('From', from) : null,
      labelled('Verdict', verdict),
      differ((row) => row.step) ? labelled('Steps', filters.stepFrom, filters.stepTo) : null,
      labelled('Thinking tokens', filters.tokensFrom, filters.tokensTo),
      differ((row) => row.reward) ? labelled('Reward', filters.rewardFrom, filters.rewardTo) : null,
      labelled('Order', order),
    ),
    count,
    h('div', { class: 'browser' }, list, detail),
  );
  show();
}
