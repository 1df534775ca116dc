/** Line plots with axes and a legend, as SVG text. */
import { optionalPackage } from '../optional-package';
import { maximum, minimum } from '../statistics';

export interface Axis {
  label: string;
  scale: 'linear' | 'log';
  /** The largest value comes first. */
  reversed?: boolean;
}

export interface Line {
  /** Selects colour and dashes, the same in every panel. */
  index: number;
  points: [number, number][];
}

export interface Panel {
  title: string;
  x: Axis;
  y: Axis;
  lines: readonly Line[];
  /** Number of lines over all panels; indices are below it. */
  count: number;
  /** A line of text under the title. */
  note: string;
}

const PANEL = { width: 400, height: 270, gapX: 90, gapY: 110 };
export const MARGIN = { left: 80, top: 110, right: 30, bottom: 60 };
const LEGEND_X = MARGIN.left + 2 * PANEL.width + PANEL.gapX + 40;
const WIDTH = LEGEND_X + 230;
/** Height of a document with that many rows of panels. */
export const heightOf = (rows: number): number =>
  MARGIN.top + rows * PANEL.height + (rows - 1) * PANEL.gapY + MARGIN.bottom;
const LEGEND_ROW = 21;

/**
 * The colour-blind-safe palette of Okabe and Ito (2008), without their yellow, which is too pale for lines.
 */
const COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#56b4e9', '#e69f00', '#000000'];
const DASHES = ['', '7 4', '2 3', '9 3 2 3', '14 4'];

const escaped = (text: string): string =>
  text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;');

/** Coordinates rounded to a hundredth of a pixel. */
const px = (value: number): string => String(Number(value.toFixed(2)));

/**
 * With few lines the earlier ones are wider, so that a covered line still shows. @param count number of all
 * lines
 */
function stroke(index: number, count: number): string {
  const width = count > 8 ? 1.8 : 1.6 + 0.6 * (count - 1 - index);
  const dash = DASHES[Math.floor(index / COLOURS.length) % DASHES.length]!;
  const colour = COLOURS[index % COLOURS.length]!;
  return `fill="none" stroke="${colour}" stroke-width="${px(width)}"${dash === '' ? '' : ` stroke-dasharray="${dash}"`}`;
}

interface Scale {
  (value: number): number;
  ticks: { value: number; label: string }[];
}

function extent(values: readonly number[], { scale }: Axis): [number, number] {
  if (values.length === 0) return scale === 'log' ? [0.1, 1] : [0, 1];
  const [low, high] = [minimum(values), maximum(values)];
  if (low < high) return [low, high];
  return scale === 'log' ? [low / 10, high * 10] : [low - 1, high + 1];
}

function tickLabel(value: number): string {
  if (value !== 0 && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e6)) return value.toExponential(0);
  return value.toLocaleString('en-US', { maximumFractionDigits: 6 });
}

async function scaleOf(values: readonly number[], axis: Axis, range: [number, number]): Promise<Scale> {
  const { scaleLinear, scaleLog } = await optionalPackage(
    'acoer lab --svg',
    'd3-scale',
    () => import('d3-scale'),
  );
  const [low, high] = extent(values, axis);
  const domain = axis.reversed ? [high, low] : [low, high];
  if (axis.scale === 'linear') {
    const scale = scaleLinear().domain(domain).range(range).nice();
    return Object.assign((value: number) => scale(value), {
      ticks: scale.ticks(6).map((value) => ({ value, label: tickLabel(value) })),
    });
  }
  const scale = scaleLog().domain(domain).range(range).nice();
  const decades = scale
    .ticks()
    .filter((value) => Number.isInteger(Math.round(1e6 * Math.log10(value)) / 1e6));
  const every = Math.ceil(decades.length / 6);
  const ticks = decades
    .filter((_, i) => i % every === 0)
    .map((value) => ({ value, label: tickLabel(value) }));
  return Object.assign((value: number) => scale(value), { ticks });
}

function axes(x: Scale, y: Scale, { width, height }: typeof PANEL): string[] {
  const vertical = x.ticks.map(({ value, label }) => {
    const at = px(x(value));
    return `<path class="grid" d="M${at} 0V${height}"/><text x="${at}" y="${height + 17}" text-anchor="middle">${label}</text>`;
  });
  const horizontal = y.ticks.map(({ value, label }) => {
    const at = px(y(value));
    return `<path class="grid" d="M0 ${at}H${width}"/><text x="-8" y="${px(y(value) + 4)}" text-anchor="end">${label}</text>`;
  });
  return [...vertical, ...horizontal, `<rect class="frame" width="${width}" height="${height}"/>`];
}

function labels({ title, note, x, y }: Panel, { width, height }: typeof PANEL): string[] {
  return [
    `<text class="title" y="-${note === '' ? 12 : 28}">${escaped(title)}</text>`,
    ...(note === '' ? [] : [`<text class="note" y="-10">${escaped(note)}</text>`]),
    `<text x="${width / 2}" y="${height + 38}" text-anchor="middle">${escaped(x.label)}</text>`,
    `<text transform="translate(-54 ${height / 2}) rotate(-90)" text-anchor="middle">${escaped(y.label)}</text>`,
  ];
}

/** A panel at its place in the grid. */
export async function panelSvg(panel: Panel, column: number, row: number): Promise<string> {
  const points = panel.lines.flatMap((line) => line.points);
  const x = await scaleOf(
    points.map(([value]) => value),
    panel.x,
    [0, PANEL.width],
  );
  const y = await scaleOf(
    points.map(([, value]) => value),
    panel.y,
    [PANEL.height, 0],
  );
  const paths = panel.lines.map(({ index, points: own }) => {
    const d = own.map(([a, b], i) => `${i === 0 ? 'M' : 'L'}${px(x(a))} ${px(y(b))}`).join('');
    return `<path d="${d}" ${stroke(index, panel.count)}/>`;
  });
  const left = MARGIN.left + column * (PANEL.width + PANEL.gapX);
  const top = MARGIN.top + row * (PANEL.height + PANEL.gapY);
  const content = [...axes(x, y, PANEL), ...paths, ...labels(panel, PANEL)];
  return `<g transform="translate(${left} ${top})">\n${content.join('\n')}\n</g>`;
}

/** Names next to samples of their lines, in index order. */
export function legend(title: string, names: readonly string[]): { svg: string; height: number } {
  const rows = names.map((name, index) => {
    const y = 14 + LEGEND_ROW * index;
    return `<path d="M0 ${y}H34" ${stroke(index, names.length)}/><text x="44" y="${y + 4}">${escaped(name)}</text>`;
  });
  const content = [`<text class="title" y="-12">${escaped(title)}</text>`, ...rows];
  const svg = `<g transform="translate(${LEGEND_X} ${MARGIN.top})">\n${content.join('\n')}\n</g>`;
  return { svg, height: LEGEND_ROW * names.length };
}

const STYLE = `text { font: 12px "Helvetica Neue", Arial, "Liberation Sans", "DejaVu Sans", sans-serif; fill: #333; }
.head { font-size: 18px; font-weight: bold; fill: #000; }
.title { font-size: 14px; font-weight: bold; fill: #000; }
.note { fill: #666; }
.grid { stroke: #e4e4e4; fill: none; }
.frame { stroke: #999; fill: none; }`;

export function svgDocument(
  title: string,
  caption: string,
  parts: readonly string[],
  height: number,
): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}">
<style>
${STYLE}
</style>
<rect width="100%" height="100%" fill="#fff"/>
<text class="head" x="${MARGIN.left}" y="34">${escaped(title)}</text>
<text class="note" x="${MARGIN.left}" y="55">${escaped(caption)}</text>
${parts.join('\n')}
</svg>
`;
}
