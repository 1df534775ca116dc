/** The tables of completions of a run, to read while it trains. */
import { mountCompletions, SOURCES } from '../../report/browser/completions';
import type { WireTable, WireTableRows } from '../wire';
import { getJson } from './connection';
import { fill, h, setText } from '../../report/browser/dom';
import { grouped } from '../../base/text';

const keyOf = ({ kind, step }: WireTable): string => `${kind}.${step}`;

/** Newest first; training before evaluations of the same step. */
const newestFirst = (a: WireTable, b: WireTable): number =>
  b.step - a.step || Number(b.kind === 'training') - Number(a.kind === 'training');

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
      h('option', { value: keyOf(table) }, `step ${grouped(table.step)}, ${SOURCES[table.kind]}`),
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
      const shown = found.completions.length;
      setText(this.note, found.total > shown ? `The first ${shown} of ${grouped(found.total)}.` : '');
      mountCompletions(this.rows, found);
    } catch (error) {
      setText(this.note, error instanceof Error ? error.message : String(error));
      fill(this.rows);
    }
  }
}
