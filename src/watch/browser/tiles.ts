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
  note: string;
  /** Added to the value's class. */
  kind: string;
}

const tile = (name: string, value: string, note: string, kind = ''): Tile => ({ name, value, note, kind });

/** The tile of a value, if the run has it. */
const ifKnown = <T>(value: T | null | undefined, of: (value: T) => Tile): Tile[] =>
  value === null || value === undefined ? [] : [of(value)];

const changeTiles = ({ entry }: RunModel): Tile[] => [
  ...ifKnown(entry?.accuracy, ({ before, now }) =>
    tile('Training accuracy', percent(now), `from ${percent(before)}`),
  ),
  ...ifKnown(entry?.thinking, (change) =>
    tile('Thinking tokens', tokens(change.now), `${relative(change)} from ${tokens(change.before)}`),
  ),
];

function controllerTiles({ latest }: RunModel): Tile[] {
  const { 'acoer/alpha': alpha, 'acoer/ema_accuracy': average, 'acoer/ema_correct_length': length } = latest;
  const strength = average === undefined ? 'strength of the bonus' : `average accuracy ${percent(average)}`;
  const correct = length === undefined ? 'tokens' : `correct answers think ${tokens(length)}`;
  return [
    ...ifKnown(alpha ?? latest['a-dlp/lambda'], (weight) =>
      tile(alpha === undefined ? 'Lambda' : 'Alpha', formatValue(weight, 'number'), strength),
    ),
    ...ifKnown(latest['acoer/budget'], (budget) => tile('Budget', tokens(budget), correct)),
  ];
}

const monitorTile = ({ latest, entry }: RunModel): Tile[] =>
  ifKnown(latest['monitor/state'], (state) => {
    const health = HEALTH[state] ?? 'healthy';
    const n = entry?.rollbacks ?? 0;
    return tile('Monitor', health, n === 0 ? 'no rollback' : `${n} rollback${n === 1 ? '' : 's'}`, health);
  });

function speedTiles({ latest, progress }: RunModel): Tile[] {
  const { step_time: step, 'memory/engine_bytes': device } = latest;
  const pace = step === undefined ? 'while generating' : `a step takes ${formatValue(step, 'seconds')}`;
  const engine = device === undefined ? 'of the process' : `engine ${formatValue(device, 'bytes')}`;
  return [
    ...ifKnown(progress?.tokensPerSecond ?? latest['time/generated_tokens_per_second'], (rate) =>
      tile('Tokens per second', formatValue(rate, 'number'), pace),
    ),
    ...ifKnown(latest['completions/clipped_ratio'], (cut) =>
      tile('Cut off', percent(cut), 'of the last completions'),
    ),
    ...ifKnown(latest['memory/resident_bytes'], (memory) =>
      tile('Memory', formatValue(memory, 'bytes'), engine),
    ),
  ];
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
        h('dd', { class: `now-value ${kind}` }, value),
        h('dd', { class: 'muted small' }, note),
      ),
    );
    fill(this.element, ...shown);
  }
}
