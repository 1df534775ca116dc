/** A browser of completions: filters and search on top, a list, and the chosen completion beside it. */
import type { ShownCompletion, ShownCompletions } from '../shown';
import { element } from './dom';
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
  return element('select', {}, ...options.map(([value, name]) => element('option', { value }, name)));
}

const bound = (label: string): HTMLInputElement =>
  element('input', { type: 'number', step: 'any', 'aria-label': label });

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
    search: element('input', { type: 'search', placeholder: 'text, problem, answer' }),
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
    return element('label', {}, name, inputs[0]!);
  }
  return element('label', {}, name, element('span', {}, inputs[0]!, ' to ', inputs[1]!));
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
  return [row.text, problem.prompt, problem.id, problem.gold].some((text) =>
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
  element('span', { class: row.correct ? 'good' : 'bad' }, row.correct ? '✓ correct' : `✕ ${row.status}`);

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
  const close = row.text.indexOf('</think>');
  const thinking = close === -1 ? row.text : row.text.slice(0, close + '</think>'.length);
  const answer = close === -1 ? '' : row.text.slice(close + '</think>'.length).trim();
  const parts = Object.entries(row.parts).map(([name, value]) => `${name} ${number(value)}`);
  const facts = [
    factsOf(row, data),
    ...(parts.length > 0 ? [`parts: ${parts.join(', ')}`] : []),
    ...(row.advantage === null ? [] : [`advantage ${number(row.advantage)}`]),
    ...(row.finish === 'length' ? ['cut off at the limit'] : []),
  ];
  const prompt = element('div', { class: 'problem' }, problem.prompt);
  const end = element('div', { class: 'answer-text' }, answer);
  const shown = element(
    'article',
    { class: 'completion' },
    element('h3', {}, verdictMark(row)),
    element('p', { class: 'muted' }, facts.join(' · ')),
    prompt,
    element('p', { class: 'muted' }, `Reference: ${problem.gold}; answer found: ${row.extracted ?? 'none'}`),
    element(
      'div',
      { class: 'thinking-text', tabindex: 0, role: 'group', 'aria-label': 'Thinking' },
      thinking,
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
  const count = element('p', { class: 'muted', role: 'status' });
  const list = element('ul', { class: 'rows', 'aria-label': 'Completions' });
  const detail = element('div', { 'aria-live': 'polite' });
  let limit = PAGE_ROWS;
  let current: HTMLElement | null = null;

  const open = (row: ShownCompletion, button: HTMLElement) => {
    current?.removeAttribute('aria-current');
    button.setAttribute('aria-current', 'true');
    current = button;
    detail.replaceChildren(detailOf(row, data));
  };
  const item = (row: ShownCompletion) => {
    const question = element('span', { class: 'question' }, data.problems[row.problem]!.prompt.slice(0, 200));
    const button = element(
      'button',
      { type: 'button', onclick: () => open(row, button) },
      verdictMark(row),
      ` ${factsOf(row, data)}`,
      question,
    );
    return element('li', {}, button);
  };
  const show = () => {
    const words = filters.search.value.trim().toLowerCase();
    const found = data.completions.filter((row) => matches(row, data, filters, words));
    const rows = sorted(found, filters.order.value).slice(0, limit);
    count.textContent = `${number(found.length)} of ${number(data.completions.length)} completions`;
    list.replaceChildren(...rows.map(item));
    if (found.length > rows.length) {
      const more = element(
        'button',
        { type: 'button', onclick: () => ((limit += PAGE_ROWS), show()) },
        `Show ${PAGE_ROWS} more`,
      );
      list.append(element('li', {}, more));
    }
    detail.replaceChildren();
    list.querySelector('button')?.click();
  };
  for (const input of Object.values(filters) as HTMLElement[]) {
    input.addEventListener('input', () => {
      limit = PAGE_ROWS;
      show();
    });
  }
  const { run, from, verdict, search, order } = filters;
  root.replaceChildren(
    element(
      'div',
      { class: 'filters' },
      labelled('Search', search),
      ...(data.runs.length > 1 ? [labelled('Run', run)] : []),
      labelled('From', from),
      labelled('Verdict', verdict),
      labelled('Steps', filters.stepFrom, filters.stepTo),
      labelled('Thinking tokens', filters.tokensFrom, filters.tokensTo),
      labelled('Reward', filters.rewardFrom, filters.rewardTo),
      labelled('Order', order),
    ),
    count,
    element('div', { class: 'browser' }, list, detail),
  );
  show();
}
