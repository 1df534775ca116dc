/** Figures as SVG text, drawn by Observable Plot on a document without a browser. */
import type * as PlotModule from '@observablehq/plot' with { 'resolution-mode': 'import' };
import { optionalPackage } from '../base/optional-package';
import { escaped } from '../base/printable';
import { DARK, LIGHT, LINE_COLOURS } from './palette';

export type Plot = typeof PlotModule;
export type PlotOptions = PlotModule.PlotOptions;

/** In viewBox units, which are pixels in a column of the report. */
export const FIGURE_SIZE = { width: 480, height: 260 };

/** Colours are variables of the page, so that one drawing serves light and dark. */
export const colour = (index: number): string => `var(--s${index % LINE_COLOURS})`;

export const xAxis = (label: string) => ({ label, labelAnchor: 'center', labelArrow: 'none' }) as const;
export const yAxis = (label: string) => ({ label, labelArrow: 'none', grid: true, ticks: 5 }) as const;

/** Beyond the number of colours, lines differ in their dashes. */
export const dashes = (index: number): string | undefined =>
  [undefined, '7 3', '2 3', '9 3 2 3', '14 4'][Math.floor(index / LINE_COLOURS) % 5];

/** linkedom has no XML serialiser of its own that keeps a namespace; coordinates need no more than 0.01. */
function cleaned(svg: string, label: string): string {
  return (
    svg
      .replace(/<style>[^]*?<\/style>/, '')
      // A label is for what has a role; to tell marks apart, any attribute will do.
      .replace(/ aria-label=/g, ' data-mark=')
      .replace(/<[^>]+>/g, (tag) =>
        tag.replace(/\d+\.\d{3,}/g, (digits) => String(Number(Number(digits).toFixed(2)))),
      )
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
  scale(name: 'x'): { domain?: unknown[]; range?: unknown[] } | undefined;
}

export interface Drawing {
  Plot: Plot;
  /** A figure as SVG. @param label what a screen reader says in place of it */
  draw: (label: string, options: PlotOptions) => string;
}

/** @param user the command that draws @throws MISSING_PACKAGE */
export async function loadDrawing(user: string): Promise<Drawing> {
  const [Plot, { parseHTML }] = await Promise.all([
    optionalPackage(user, '@observablehq/plot', () => import('@observablehq/plot')),
    optionalPackage(user, 'linkedom', () => import('linkedom')),
  ]);
  const draw = (label: string, options: PlotOptions): string => {
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
    const place =
      typeof x?.domain?.[0] === 'number' ? ` data-x="${[...x.domain, ...x.range!].join(' ')}"` : '';
    return cleaned(drawn.outerHTML, label).replace('<svg', `<svg${place}`);
  };
  return { Plot, draw };
}

/** With the colours of the light page in place of variables. */
const inLight = (svg: string): string =>
  svg
    .replace(/var\(--([a-z]+\d*)\)/g, (_, name: string) => LIGHT[name] ?? '#000000')
    .replaceAll('currentColor', LIGHT.text!)
    .replace(/^(<svg [^>]*>)/, `$1<rect width="100%" height="100%" fill="${LIGHT.page!}"/>`);

/** The colours of the dark page over those of the light one, where the viewer asks for them. */
function darkRules(svg: string): string {
  const rules = Object.entries(LIGHT).flatMap(([name, light]) =>
    ['fill', 'stroke'].flatMap((kind) =>
      svg.includes(`${kind}="${light}"`) ? [`[${kind}="${light}"]{${kind}:${DARK[name]!}}`] : [],
    ),
  );
  return `<style>@media (prefers-color-scheme:dark){${rules.join('')}}</style>`;
}

/**
 * The figure as a file of its own, in the colours of the light page; in those of the dark one where a browser shows it
 * on a dark ground. Programs that know no such rules, as those for papers, leave them out.
 */
export function standalone(svg: string): string {
  const light = inLight(svg);
  return light.replace(/^(<svg [^>]*>)/, (open) => open + darkRules(light));
}

/** PNG at twice the figure's size. @throws MISSING_PACKAGE, or an Error from resvg if the drawing is not valid */
export async function toPng(svg: string): Promise<Uint8Array> {
  const { Resvg } = await optionalPackage(
    'acoer report --figures',
    '@resvg/resvg-js',
    () => import('@resvg/resvg-js'),
  );
  const options = { fitTo: { mode: 'zoom', value: 2 }, font: { loadSystemFonts: true } } as const;
  return new Resvg(inLight(svg), options).render().asPng();
}
