/** Figures as SVG text, drawn by Observable Plot on a document without a browser. */
import type * as PlotModule from '@observablehq/plot' with { 'resolution-mode': 'import' };
import { optionalPackage } from '../optional-package';
import { escaped } from './html';
import { LIGHT, LINE_COLOURS } from './palette';

export type Plot = typeof PlotModule;
export type PlotOptions = PlotModule.PlotOptions;

/** @throws MISSING_PACKAGE */
export const loadPlot = (): Promise<Plot> =>
  optionalPackage('acoer report', '@observablehq/plot', () => import('@observablehq/plot'));

const loadDocument = () => optionalPackage('acoer report', 'linkedom', () => import('linkedom'));
const loadResvg = () =>
  optionalPackage('acoer report --figures', '@resvg/resvg-js', () => import('@resvg/resvg-js'));

/** In viewBox units, which are pixels in a column of the report. */
export const FIGURE_SIZE = { width: 480, height: 260 };

/** Colours are variables of the page, so that one drawing serves light and dark. */
export const colour = (index: number): string => `var(--s${index % LINE_COLOURS})`;

/** linkedom has no XML serialiser of its own that keeps a namespace; coordinates need no more than 0.01. */
function cleaned(svg: string, label: string): string {
  return (
    svg
      .replace(/<style>[^]*?<\/style>/, '')
      // A label is for what has a role; to tell marks apart, any attribute will do.
      .replace(/ aria-label=/g, ' data-mark=')
      .replace(/\d+\.\d{3,}/g, (digits) => String(Number(Number(digits).toFixed(2))))
      .replace(/^<svg /, `<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="${escaped(label)}" `)
      .replace(/ class="[^"]*"/, '')
      .replace(
        / font-family="[^"]*"/,
        ' font-family="system-ui, Arial, Liberation Sans, DejaVu Sans, sans-serif"',
      )
  );
}

interface DrawnFigure {
  outerHTML: string;
  scale(name: 'x'): { domain: unknown[]; range?: unknown[] } | undefined;
}

/** @param label what a screen reader says in place of the figure */
export async function draw(label: string, options: PlotOptions): Promise<string> {
  const [Plot, { parseHTML }] = await Promise.all([loadPlot(), loadDocument()]);
  // The type of a document is one of a browser's, which this program does not have.
  const { document } = parseHTML('<html><body></body></html>') as { document: never };
  const figure: unknown = Plot.plot({
    document,
    ...FIGURE_SIZE,
    marginTop: 24,
    marginLeft: 52,
    marginRight: 20,
    marginBottom: 36,
    ...options,
  });
  const drawn = figure as DrawnFigure;
  const x = drawn.scale('x');
  // For the page's readout under the pointer.
  const place = typeof x?.domain[0] === 'number' ? ` data-x="${[...x.domain, ...x.range!].join(' ')}"` : '';
  return cleaned(drawn.outerHTML, label).replace('<svg', `<svg${place}`);
}

/** The figure as a file of its own, with the colours of the light page in place of variables. */
export const standalone = (svg: string): string =>
  svg
    .replace(/var\(--([a-z]+\d*)\)/g, (_, name: string) => LIGHT[name] ?? '#000000')
    .replaceAll('currentColor', LIGHT.text!)
    .replace(/^(<svg [^>]*>)/, `$1<rect width="100%" height="100%" fill="${LIGHT.page!}"/>`);

/** PNG at twice the figure's size. @throws MISSING_PACKAGE, or an Error from resvg if the drawing is not valid */
export async function toPng(svg: string): Promise<Uint8Array> {
  const { Resvg } = await loadResvg();
  const options = { fitTo: { mode: 'zoom', value: 2 }, font: { loadSystemFonts: true } } as const;
  return new Resvg(standalone(svg), options).render().asPng();
}
