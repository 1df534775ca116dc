/**
 * The lab's report as an SVG picture: for each class of answers, advantage by length and pressure by spread;
 * and how much of the length weight is left by epsilon.
 */
import { needList, needObject } from '../base/border';
import { colour, dashes, loadDrawing, standalone, type Drawing } from '../drawing/svg';
import { maximum, minimum } from '../base/statistics';
import { balanceOf, holdOf } from './length-weight';
import { homogeneousOf, pathwayNames } from './prediction';
import { CLASSES, type AnswerClass, type LabReport, type LengthWeight, type RewardReport } from './types';

interface Axis {
  label: string;
  scale: 'linear' | 'log';
  /** The largest value comes first. */
  reversed?: boolean;
}

interface Line {
  /** Selects colour and dashes, the same in every panel. */
  index: number;
  points: [number, number][];
}

interface Panel {
  title: string;
  x: Axis;
  y: Axis;
  lines: readonly Line[];
  /** A line of text under the title. */
  note: string;
}

/** In pixels; margins hold a panel's title and labels. */
const PANEL = { width: 494, height: 372, marginLeft: 66, marginTop: 60, marginRight: 28, marginBottom: 42 };
const HEAD = 50;
const LEGEND = { left: 2 * PANEL.width + 12, width: 220, row: 21 };

const advantageLine = (report: RewardReport, kind: AnswerClass, index: number): Line => ({
  index,
  points: report.curves[kind].length.map((length, i) => [length, report.curves[kind].advantage[i]!]),
});

function pressureLine(report: RewardReport, kind: AnswerClass, index: number): Line {
  const points = report.sweeps[homogeneousOf(kind)].points.flatMap((point): [number, number][] => {
    const [spread, slope] = [point.lengthStd[kind] ?? 0, 1000 * Math.abs(point[kind]?.advantageSlope ?? 0)];
    // Zeros have no place on a logarithmic axis.
    return spread > 0 && slope > 0 && slope < Infinity ? [[spread, slope]] : [];
  });
  return { index, points };
}

function panelsOf({ rewards }: LabReport, kind: AnswerClass): [Panel, Panel] {
  const pressure = rewards.map((report, index) => pressureLine(report, kind, index));
  const flat = rewards.filter((_, index) => pressure[index]!.points.length === 0).map(({ name }) => name);
  const flatNote = flat.length > 6 ? `${flat.length} rewards` : flat.join(', ');
  return [
    {
      title: `One ${kind} answer in a mixed group`,
      x: { label: 'its thinking tokens', scale: 'linear' },
      y: { label: 'advantage', scale: 'linear' },
      lines: rewards.map((report, index) => advantageLine(report, kind, index)),
      note: '',
    },
    {
      title: `Groups of ${kind} answers alone`,
      x: { label: 'standard deviation of their lengths (tokens), narrowing', scale: 'log', reversed: true },
      y: { label: '|d advantage / d length| per 1,000 tokens', scale: 'log' },
      lines: pressure.filter(({ points }) => points.length > 0),
      note: flat.length === 0 ? '' : `no slope: ${flatNote}`,
    },
  ];
}

/** From TRL's 1e-4 to 1. */
const EPSILON_AXIS = Array.from({ length: 41 }, (_, i) => 10 ** (i / 10 - 4));

type OfEpsilon = (weight: LengthWeight, scaling: { scale: 'group'; epsilon: number }) => number;

/**
 * Panels by epsilon; none where advantages are not divided by their own group's std, or length does not
 * affect correct answers.
 */
function epsilonPanels({ rewards, settings }: LabReport): Panel[] {
  const weights = rewards.flatMap(({ lengthWeights }, index) =>
    lengthWeights.map((weight) => ({ index, weight })),
  );
  if (settings.scale !== 'group' || weights.length === 0) return [];
  const lines = (value: OfEpsilon): Line[] =>
    weights.map(({ index, weight }) => ({
      index,
      points: EPSILON_AXIS.map((epsilon) => [epsilon, value(weight, { scale: 'group', epsilon })]),
    }));
  const alphas = weights.flatMap(({ weight }) => weight.alpha ?? []);
  const range = [minimum(alphas), maximum(alphas)].map((alpha) => Number(alpha.toPrecision(3)));
  const note = (from: string) =>
    alphas.length === 0 ? '' : `alpha ${range.join(' to ')} from the ${from} line`;
  const x = { label: 'epsilon', scale: 'log' } as const;
  return [
    {
      title: 'Hold of the length weight, correct answers alone',
      x,
      y: { label: 'epsilon / (std + epsilon)', scale: 'linear' },
      lines: lines(({ allCorrect }, scaling) => holdOf(allCorrect, scaling)),
      note: note('highest'),
    },
    {
      title: 'Correct answers alone against a mixed group',
      x,
      y: { label: 'ratio of the stds of their advantages', scale: 'linear' },
      lines: lines(balanceOf),
      note: note('lowest'),
    },
  ];
}

function caption({ groupSize, accuracy, settings }: LabReport): string {
  const { maxLength, epsilon, scale } = settings;
  const divided = scale === 'none' ? 'not divided' : `std of the ${scale} + ${epsilon}`;
  return `groups of ${groupSize}, accuracy ${Number(accuracy.toPrecision(3))}, L ${maxLength}; advantages: ${divided}`;
}

/** The scale of an axis, with round ticks at its ends. @param values what it shows */
function scaleOf(values: readonly number[], { label, scale, reversed = false }: Axis) {
  const shared = { label, reverse: reversed, labelAnchor: 'center', labelArrow: 'none', grid: true } as const;
  const [low, high] = values.length === 0 ? [0.1, 1] : [minimum(values), maximum(values)];
  if (scale === 'linear') {
    return { ...shared, domain: low < high ? [low, high] : [low - 1, high + 1], nice: true, ticks: 6 };
  }
  const first = Math.floor(Math.log10(low));
  const last = Math.max(first + 1, Math.ceil(Math.log10(high)));
  const decades = Array.from({ length: last - first + 1 }, (_, i) => Number(`1e${first + i}`));
  const every = Math.ceil(decades.length / 6);
  return {
    ...shared,
    type: 'log',
    domain: [decades[0]!, decades.at(-1)!],
    ticks: decades.filter((_, i) => i % every === 0),
    tickFormat: (value: number) => (value < 1 ? String(value) : value.toLocaleString('en-US')),
  } as const;
}

/** With few lines the earlier ones are wider, so that a covered line still shows. */
const strokeOf = (index: number, count: number) => ({
  stroke: colour(index),
  strokeWidth: count > 8 ? 1.8 : 1.6 + 0.6 * (count - 1 - index),
  strokeDasharray: dashes(index),
});

/** @param count number of lines over all panels */
function panelSvg({ Plot, draw }: Drawing, { title, note, x, y, lines }: Panel, count: number): string {
  const points = lines.flatMap((line) => line.points);
  const corner = { frameAnchor: 'top-left', lineAnchor: 'bottom' } as const;
  return draw(title, {
    ...PANEL,
    style: { fontSize: '12px' },
    x: scaleOf(
      points.map(([value]) => value),
      x,
    ),
    y: scaleOf(
      points.map(([, value]) => value),
      y,
    ),
    marks: [
      ...lines.map((line) => Plot.line(line.points, strokeOf(line.index, count))),
      Plot.frame({ className: 'frame', strokeOpacity: 0.5 }),
      Plot.text([title], { ...corner, dy: note === '' ? -10 : -26, fontSize: 14, fontWeight: 'bold' }),
      Plot.text([note], { ...corner, dy: -8, fill: 'var(--muted)' }),
    ],
  });
}

/** The heading and the legend, over the whole picture, whose scales are pixels. */
function frameSvg({ Plot, draw }: Drawing, report: LabReport, panels: number): string {
  const title = 'What rewards do to lengths';
  const left = PANEL.marginLeft;
  const top = HEAD + PANEL.marginTop;
  const rows = report.rewards.map((reward, index) => ({
    text: `${reward.name}: ${pathwayNames(reward.prediction, ' guarded')}`,
    y: top + 14 + LEGEND.row * index,
  }));
  const pixels = { type: 'identity', axis: null } as const;
  const at = (x: number, y: number) => ({ x: [x], y: [y], textAnchor: 'start' }) as const;
  return draw(title, {
    width: LEGEND.left + LEGEND.width,
    height: Math.max(HEAD + Math.ceil(panels / 2) * PANEL.height, (rows.at(-1)?.y ?? 0) + LEGEND.row),
    x: pixels,
    y: pixels,
    marks: [
      Plot.text([title], { ...at(left, 28), fontSize: 18, fontWeight: 'bold' }),
      Plot.text([caption(report)], { ...at(left, 50), fontSize: 12, fill: 'var(--muted)' }),
      Plot.text(['reward: pathways'], { ...at(LEGEND.left, top - 14), fontSize: 14, fontWeight: 'bold' }),
      ...rows.map(({ y }, index) =>
        Plot.line(
          [LEGEND.left, LEGEND.left + 34].map((x) => [x, y]),
          strokeOf(index, rows.length),
        ),
      ),
      Plot.text(rows, { x: () => LEGEND.left + 44, y: 'y', text: 'text', textAnchor: 'start', fontSize: 12 }),
    ],
  });
}

/** An SVG document. @throws MISSING_PACKAGE */
export async function plotLab(report: LabReport): Promise<string> {
  needObject('the report of plotLab()', report);
  needList('report.rewards', report.rewards);
  const drawing = await loadDrawing('acoer lab --svg');
  const panels = [...CLASSES.flatMap((kind) => panelsOf(report, kind)), ...epsilonPanels(report)];
  const drawn = panels.map((panel, i) => {
    const [x, y] = [(i % 2) * PANEL.width, HEAD + Math.floor(i / 2) * PANEL.height];
    return panelSvg(drawing, panel, report.rewards.length).replace('<svg', `<svg x="${x}" y="${y}"`);
  });
  const whole = frameSvg(drawing, report, panels.length);
  return `${standalone(whole.replace(/<\/svg>$/, `${drawn.join('')}</svg>`))}\n`;
}
