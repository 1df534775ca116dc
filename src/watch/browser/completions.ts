/** The tables of completions of a run, to read while it goes on. */
import type { WireRow, WireTable, WireTableRows } from '../wire';
import { getJson } from './connection';
import { fill, h, setText } from './dom';
import { grouped } from './format';

const NAMES: Readonly<Record<WireTable['kind'], string>> = {
  training: 'training',
  greedy: 'evaluation, greedy',
  sampled: 'evaluation, sampled',
};

const keyOf = ({ kind, step }: WireTable): string => `${kind}.${step}`;

/** Newest first; training before evaluations of the same step. */
const newestFirst = (a: WireTable, b: WireTable): number =>
  b.step - a.step || Number(b.kind === 'training') - Number(a.kind === 'training');

const VERDICTS: Readonly<Record<string, string>> = {
  correct: 'correct',
  incorrect: 'wrong',
  unparseable: 'no answer',
  timeout: 'not judged in time',
  'gold-unparseable': 'reference not understood',
};

export class Completions {
  readonly element: HTMLElement;
  private readonly choice = h('select');
  private readonly rows = h('div', { class: 'table-rows' });
  private readonly note = h('p', { class: 'muted small', role: 'status' });
  private tables: WireTable[] = [];
  private text = '';
  /** The table shown; null: none yet. */
  private shown: string | null = null;
  /** The reader has chosen a table, so a newer one does not replace it. */
  private chosen = false;

  constructor(private readonly run: string) {
    const label = h('label', {}, 'Table ', this.choice);
    this.element = h(
      'section',
      { class: 'completions' },
      h('h2', {}, 'Completions'),
      label,
      this.note,
      this.rows,
    );
    this.element.hidden = true;
    this.choice.addEventListener('change', () => {
      this.chosen = this.choice.selectedIndex > 0;
      void this.show(this.choice.value);
    });
  }

  update(tables: readonly WireTable[]): void {
    const text = JSON.stringify(tables);
    if (text === this.text) return;
    this.text = text;
    this.tables = [...tables].sort(newestFirst);
    const options = this.tables.map((table) =>
      h('option', { value: keyOf(table) }, `step ${grouped(table.step)}, ${NAMES[table.kind]}`),
    );
    fill(this.choice, ...options);
    this.element.hidden = options.length === 0;
    const newest = this.tables[0];
    if (newest === undefined) return;
    const kept = this.shown !== null && this.tables.some((table) => keyOf(table) === this.shown);
    if (this.chosen && kept) this.choice.value = this.shown!;
    else void this.show(keyOf(newest));
  }

  private async show(key: string): Promise<void> {
    if (key === this.shown) return;
    this.shown = key;
    const table = this.tables.find((other) => keyOf(other) === key);
    if (table === undefined) return;
    setText(this.note, 'Reading\u2026');
    const { kind, step } = table;
    try {
      const found = await getJson<WireTableRows>(`table?run=${this.run}&kind=${kind}&step=${step}`);
      if (this.shown !== key) return;
      const correct = found.rows.filter((row) => row.correct).length;
      const cut = found.total > found.rows.length ? `; the first ${found.rows.length} are shown` : '';
      setText(this.note, `${grouped(found.total)} completions, ${grouped(correct)} correct${cut}`);
      fill(this.rows, ...found.rows.map(rowElement));
    } catch (error) {
      setText(this.note, error instanceof Error ? error.message : String(error));
      fill(this.rows);
    }
  }
}

function rowElement(row: WireRow): HTMLElement {
  const { problemId, level, sample, correct, status, thinkingTokens, totalTokens, reward, finish } = row;
  const verdict = VERDICTS[status] ?? status;
  const where = level === null ? problemId : `${problemId}, level ${level}`;
  const summary = h(
    'summary',
    {},
    h('span', { class: `row-verdict ${correct ? 'good' : 'bad'}` }, verdict),
    h('span', { class: 'row-problem' }, where, h('span', { class: 'muted' }, ` \u00b7 sample ${sample + 1}`)),
    h(
      'span',
      { class: 'number' },
      `${grouped(totalTokens)} tokens`,
      h('span', { class: 'muted' }, `, ${grouped(thinkingTokens)} thinking`),
    ),
    h('span', { class: 'number muted' }, reward === null ? '' : `reward ${reward.toFixed(3)}`),
    finish === 'length' ? h('span', { class: 'warn small' }, 'cut off') : null,
  );
  const element = h('details', {}, summary);
  // A table may hold megabytes of text; only what is opened is laid out.
  element.addEventListener('toggle', () => element.append(...rowTexts(row)), { once: true });
  return element;
}

function rowTexts({ prompt, completion, characters, gold, extracted, advantage }: WireRow): HTMLElement[] {
  const cut =
    characters > completion.length
      ? `cut after ${grouped(completion.length)} of ${grouped(characters)} characters`
      : null;
  const facts = [
    `reference ${gold}`,
    extracted === null ? 'no answer found' : `answer ${extracted}`,
    ...(advantage === null ? [] : [`advantage ${advantage.toFixed(3)}`]),
  ];
  return [
    h('p', { class: 'muted small facts' }, facts.join(' \u00b7 ')),
    h('h3', {}, 'Prompt'),
    h('pre', { tabindex: 0, 'aria-label': 'Prompt' }, prompt),
    h('h3', {}, 'Completion', cut === null ? null : h('span', { class: 'muted small' }, ` ${cut}`)),
    h('pre', { tabindex: 0, 'aria-label': 'Completion' }, completion),
  ];
}
