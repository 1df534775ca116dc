/** The live block of a run, and a step on one line: pure functions of what is known and of the width. */
import type { KnownMetrics } from '../../base/metric-names';
import type { Health } from '../../base/types';
import { mean } from '../../base/statistics';
import { duration, grouped, percent } from '../../base/text';
import type { Colors } from './colors';
import { EVALUATED, type Activity, type ProgressState } from './progress-state';
import { ACCURACY, sparkline, TOKENS } from './sparkline';
import { columnsOf, cutTo } from './text';

/** Part of a line and how it is coloured. */
type Piece = readonly [text: string, paint?: (text: string) => string];

/** Values beside a curve are means over this many steps; a single step of few prompts says little. */
const SHOWN_STEPS = 20;
const MAX_BAR = 40;
const MIN_BAR = 8;
const MAX_CURVE = 60;
const LABEL = 10;
const VALUE = 6;

/** The pieces on one line, cut to `width`. Cutting precedes colouring, which takes no columns. */
function line(pieces: readonly Piece[], width: number): string {
  let left = width;
  return pieces
    .map(([text, paint = (plain) => plain]) => {
      const shown = cutTo(text, left);
      left -= columnsOf(shown);
      return shown === '' ? '' : paint(shown);
    })
    .join('');
}

/** The given fields with two spaces between them, without those at the end that do not fit. */
function fields(list: readonly Piece[], width: number): string {
  const shown: Piece[] = [];
  let columns = 0;
  for (const [text, paint] of list) {
    const gap = shown.length === 0 ? '' : '  ';
    columns += gap.length + columnsOf(text);
    if (columns > width && shown.length > 0) break;
    shown.push([gap], [text, paint]);
  }
  return line(shown, width);
}

function barLine({ step, maxSteps, leftNowMs }: ProgressState, width: number, colors: Colors): string {
  const share = maxSteps === 0 ? 0 : Math.min(1, step / maxSteps);
  const left = leftNowMs === null ? [] : [`${duration(leftNowMs)} left`];
  const counted = `${step}/${maxSteps}`;
  const long = [counted, percent(share, 0), ...left].join('  ');
  const text = columnsOf(long) + 1 + MIN_BAR <= width ? long : [counted, ...left].join('  ');
  const columns = Math.min(MAX_BAR, width - columnsOf(text) - 1);
  if (columns < MIN_BAR) return line([[text]], width);
  const full = Math.round(share * columns);
  const bar: Piece[] = [
    ['━'.repeat(full), colors.cyan],
    ['─'.repeat(columns - full), colors.dim],
  ];
  return line([...bar, [` ${text}`]], width);
}

function curveLine(label: string, curve: string, value: string, width: number, colors: Colors): string {
  return line(
    [[label.padEnd(LABEL), colors.dim], [`${value.padStart(VALUE)}  `], [curve, colors.cyan]],
    width,
  );
}

function curveLines({ accuracies, thinking }: ProgressState, width: number, colors: Colors): string[] {
  if (accuracies.length === 0 || thinking.length === 0) return [];
  const columns = Math.max(1, Math.min(MAX_CURVE, width - LABEL - VALUE - 2));
  const recent = (values: readonly number[]) => mean(values.slice(-SHOWN_STEPS));
  const accuracy = sparkline(accuracies, columns, ACCURACY);
  const tokens = sparkline(thinking, columns, TOKENS);
  return [
    curveLine('accuracy', accuracy, percent(recent(accuracies)), width, colors),
    curveLine('thinking', tokens, recent(thinking).toFixed(1), width, colors),
  ];
}

export const paintOf = (health: Health, colors: Colors) =>
  ({ healthy: colors.green, warning: colors.yellow, collapsed: colors.red })[health];

function stateLine(state: ProgressState, width: number, colors: Colors): string {
  const { alpha, budget, health, elapsedMs } = state;
  const list: Piece[] = [];
  if (alpha !== null) list.push([`alpha ${alpha.toFixed(3)}`]);
  if (budget !== null) list.push([`budget ${budget.toFixed(0)}`]);
  if (health !== null) list.push([`monitor ${health}`, paintOf(health, colors)]);
  list.push([`${duration(elapsedMs)} so far`, colors.dim]);
  return fields(list, width);
}

function activityText(activity: Activity): string {
  switch (activity.doing) {
    case 'loading':
      return 'loading';
    case 'updating':
      return 'updating the weights';
    case 'evaluating': {
      const { phase, kind, done, total } = activity;
      return `evaluating the ${EVALUATED[phase]}, ${kind}: ${grouped(done)} of ${grouped(total)}`;
    }
    case 'decoding': {
      const { done, total, tokens, tokensPerSecond } = activity;
      const speed = `${grouped(Math.round(tokensPerSecond))} tokens/s`;
      return `decoding: ${grouped(done)} of ${grouped(total)} done, ${grouped(Math.round(tokens))} tokens, ${speed}`;
    }
  }
}

/** At most five lines of at most `width` columns: progress, two curves, state, and what is in flight. */
export function liveLines(state: ProgressState, width: number, colors: Colors): string[] {
  return [
    barLine(state, width, colors),
    ...curveLines(state, width, colors),
    stateLine(state, width, colors),
    line([[activityText(state.activity), colors.dim]], width),
  ];
}

interface StepLine {
  index: number;
  maxSteps: number;
  metrics: KnownMetrics;
  leftMs: number | null;
  /** Columns available; the least important fields are dropped first. Default: no limit. */
  width?: number;
}

type Field = 'step' | 'accuracy' | 'thinking' | 'reward' | 'alpha' | 'budget' | 'refused' | 'left';

/** Fields in the order in which they are dropped on a narrow terminal. */
const SPARE: readonly Field[] = ['reward', 'alpha', 'budget', 'left'];

const abbreviated = (line: string): string =>
  line.replace('accuracy', 'acc').replace('thinking', 'think').replaceAll(/ +/g, ' ');

/** One training step as one line. Alpha and budget appear only if the reward has them; a step refused early has no numbers at all. */
export function stepLine({ index, maxSteps, metrics, leftMs, width = Infinity }: StepLine): string {
  const fields = new Map<Field, string>();
  fields.set('step', `step ${String(index).padStart(String(maxSteps).length)}/${maxSteps}`);
  const accuracy = metrics['accuracy/mean'];
  if (accuracy !== undefined) {
    fields.set('accuracy', `accuracy ${percent(accuracy).padStart(6)}`);
    fields.set('thinking', `thinking ${(metrics['thinking/mean'] ?? NaN).toFixed(1).padStart(6)}`);
    fields.set('reward', `reward ${(metrics.reward ?? NaN).toFixed(3)}`);
  }
  const alpha = metrics['acoer/alpha'];
  const budget = metrics['acoer/budget'];
  if (alpha !== undefined) fields.set('alpha', `alpha ${alpha.toFixed(3)}`);
  if (budget !== undefined) fields.set('budget', `budget ${budget.toFixed(0).padStart(3)}`);
  if (metrics.update_applied === 0) fields.set('refused', 'refused');
  if (leftMs !== null) fields.set('left', `${duration(leftMs)} left`);
  const line = () => [...fields.values()].join('  ');
  for (const field of SPARE) if (line().length > width) fields.delete(field);
  return line().length > width ? abbreviated(line()) : line();
}
