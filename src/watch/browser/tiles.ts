/** The figures of a run that matter now, as tiles. */
import { formatValue } from '../../report/figures';
import { fill, h } from '../../report/browser/dom';
import { relative, tokens } from './format';
import { percent } from '../../base/text';
import { HEALTH } from '../../base/types';
import type { RunModel } from './model';

interface Tile {
  name: string;
  value: string;
  /** Added to the value's class. */
  kind?: string;
  note: string;
}

function changeTiles({ entry }: RunModel): Tile[] {
  const { accuracy, thinking } = entry ?? { accuracy: null, thinking: null };
  const tiles: Tile[] = [];
  if (accuracy !== null) {
    const note = `from ${percent(accuracy.before)}`;
    tiles.push({ name: 'Training accuracy', value: percent(accuracy.now), note });
  }
  if (thinking !== null) {
    const note = `${relative(thinking)} from ${tokens(thinking.before)}`;
    tiles.push({ name: 'Thinking tokens', value: tokens(thinking.now), note });
  }
  return tiles;
}

function controllerTiles({ latest }: RunModel): Tile[] {
  const tiles: Tile[] = [];
  const alpha = latest['acoer/alpha'] ?? latest['a-dlp/lambda'];
  const budget = latest['acoer/budget'];
  const average = latest['acoer/ema_accuracy'];
  if (alpha !== undefined) {
    const note = average === undefined ? 'strength of the bonus' : `average accuracy ${percent(average)}`;
    tiles.push({
      name: latest['acoer/alpha'] === undefined ? 'Lambda' : 'Alpha',
      value: formatValue(alpha, 'number'),
      note,
    });
  }
  if (budget !== undefined) {
    const length = latest['acoer/ema_correct_length'];
    const note = length === undefined ? 'tokens' : `correct answers think ${tokens(length)}`;
    tiles.push({ name: 'Budget', value: tokens(budget), note });
  }
  return tiles;
}

function monitorTile({ latest, entry }: RunModel): Tile[] {
  const state = latest['monitor/state'];
  if (state === undefined) return [];
  const health = HEALTH[state] ?? 'healthy';
  const n = entry?.rollbacks ?? 0;
  const note = n === 0 ? 'no rollback' : `${n} rollback${n === 1 ? '' : 's'}`;
  return [{ name: 'Monitor', value: health, kind: health, note }];
}

function speedTiles({ latest, progress }: RunModel): Tile[] {
  const tiles: Tile[] = [];
  const rate = progress?.tokensPerSecond ?? latest['time/generated_tokens_per_second'];
  const step = latest.step_time;
  if (rate !== undefined) {
    const note = step === undefined ? 'while generating' : `a step takes ${formatValue(step, 'seconds')}`;
    tiles.push({ name: 'Tokens per second', value: formatValue(rate, 'number'), note });
  }
  const cut = latest['completions/clipped_ratio'];
  if (cut !== undefined) {
    tiles.push({ name: 'Cut off', value: percent(cut), note: 'of the last completions' });
  }
  const memory = latest['memory/resident_bytes'];
  if (memory !== undefined) {
    const device = latest['memory/engine_bytes'];
    const note = device === undefined ? 'of the process' : `engine ${formatValue(device, 'bytes')}`;
    tiles.push({ name: 'Memory', value: formatValue(memory, 'bytes'), note });
  }
  return tiles;
}

export class Tiles {
  readonly element = h('dl', { class: 'now-tiles' });
  private text = '';

  update(model: RunModel): void {
    const tiles = [
      ...changeTiles(model),
      ...controllerTiles(model),
      ...monitorTile(model),
      ...speedTiles(model),
    ];
    const text = JSON.stringify(tiles);
    if (text === this.text) return;
    this.text = text;
    const shown = tiles.map(({ name, value, kind, note }) =>
      h(
        'div',
        { class: 'now-tile' },
        h('dt', {}, name),
        h('dd', { class: `now-value ${kind ?? ''}` }, value),
        h('dd', { class: 'muted small' }, note),
      ),
    );
    fill(this.element, ...shown);
  }
}
