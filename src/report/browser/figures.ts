/** Figures in the page: saved as SVG, PNG or CSV, and read under the pointer. */

import { setAttributes, svg as svgElement } from './dom';
import { variable } from './theme';

/** CSV of each figure by its id. */
export type FigureData = Readonly<Record<string, string>>;

function download(name: string, content: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** The drawing with the page's present colours in place of its variables. */
function standalone(svg: SVGSVGElement): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  copy.querySelector('.pointer')?.remove();
  return new XMLSerializer()
    .serializeToString(copy)
    .replace(/var\((--[a-z0-9]+)\)/g, (_, name: string) => variable(name))
    .replaceAll('currentColor', variable('--text'))
    .replace(/^(<svg [^>]*>)/, `$1<rect width="100%" height="100%" fill="${variable('--page')}"/>`);
}

async function png(svg: SVGSVGElement): Promise<Blob> {
  const { width, height } = svg.viewBox.baseVal;
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([standalone(svg)], { type: 'image/svg+xml' }));
  await image.decode();
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [2 * width, 2 * height];
  canvas.getContext('2d')!.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob === null ? reject(new Error('no PNG could be made')) : resolve(blob))),
  );
}

async function save(figure: HTMLElement, kind: string, data: FigureData): Promise<void> {
  const svg = figure.querySelector('svg')!;
  const name = `${figure.id}.${kind}`;
  if (kind === 'csv') download(name, new Blob([data[figure.id] ?? ''], { type: 'text/csv' }));
  else if (kind === 'png') download(name, await png(svg));
  else download(name, new Blob([standalone(svg)], { type: 'image/svg+xml' }));
}

interface Readings {
  names: string[];
  /** Step and values, in step order. */
  rows: string[][];
}

/** Figures over steps have a first column `step`; their cells are numbers, which CSV does not quote. */
function readingsOf(csv: string | undefined): Readings | null {
  const [head, ...lines] = (csv ?? '').trim().split('\n');
  const names = head?.split(',') ?? [];
  if (names[0] !== 'step') return null;
  return { names: names.slice(1), rows: lines.map((line) => line.split(',')) };
}

function nearest(rows: readonly string[][], step: number): string[] | undefined {
  let [low, high] = [0, rows.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (Number(rows[middle]![0]) < step) low = middle;
    else high = middle;
  }
  const [a, b] = [rows[low], rows[high]];
  if (a === undefined || b === undefined) return a ?? b;
  return Math.abs(Number(a[0]) - step) <= Math.abs(Number(b[0]) - step) ? a : b;
}

/** Shows the values of the step under the pointer, and a line there. */
function mountReadout(figure: HTMLElement, data: FigureData): void {
  const svg = figure.querySelector('svg');
  const [from, to, left, right] = (svg?.dataset.x ?? '').split(' ').map(Number);
  const readings = readingsOf(data[figure.id]);
  if (svg === null || readings === null || right === undefined) return;
  const readout = figure.querySelector('.readout')!;
  const pointer = svgElement('line', { class: 'pointer' });
  const { width, height } = svg.viewBox.baseVal;
  svg.addEventListener('pointermove', (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * width;
    const step = from! + ((x - left!) / (right - left!)) * (to! - from!);
    const row = nearest(readings.rows, step);
    if (row === undefined || x < left! - 8 || x > right + 8) return;
    const at = left! + ((Number(row[0]) - from!) / (to! - from!)) * (right - left!);
    setAttributes(pointer, { x1: at, x2: at, y1: 20, y2: height - 36 });
    svg.append(pointer);
    const values = readings.names.flatMap((name, i) => (row[i + 1] ? [`${name} ${Number(row[i + 1])}`] : []));
    readout.textContent = `step ${row[0]}: ${values.join(', ')}`;
  });
  svg.addEventListener('pointerleave', () => {
    pointer.remove();
    readout.textContent = '';
  });
}

export function mountFigures(data: FigureData): void {
  for (const figure of document.querySelectorAll<HTMLElement>('figure')) {
    figure.querySelector<HTMLElement>('.figure-tools')!.hidden = false;
    mountReadout(figure, data);
  }
  document.addEventListener('click', (event) => {
    const button = (event.target as Element).closest<HTMLElement>('[data-save]');
    const figure = button?.closest<HTMLElement>('figure');
    if (button && figure) void save(figure, button.dataset.save!, data);
  });
}
