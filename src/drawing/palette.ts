/** The colours of the pages and of figures as files: the one place that names them. Imports nothing. */

/**
 * Lines in order: the colours of Okabe and Ito (2008), which stay apart for colour-blind readers, darkened or
 * lightened to a contrast of at least 3 with the page (WCAG 1.4.11).
 */
const LINES = {
  light: ['#0072b2', '#c04e00', '#008060', '#b0568c', '#3495d3', '#a06a00', '#444444'],
  dark: ['#56b4e9', '#f0883e', '#2fbf93', '#e39bc4', '#8cc8f0', '#e6b035', '#c4c4c4'],
} as const;

export const LINE_COLOURS = LINES.light.length;

/** Variables of the style sheet without their `--`; lines are `s0`, `s1`, ... */
type Palette = Readonly<Record<string, string>>;

const withLines = (palette: Palette, lines: readonly string[]): Palette => ({
  ...palette,
  ...Object.fromEntries(lines.map((value, i) => [`s${i}`, value])),
});

export const LIGHT = withLines(
  {
    page: '#ffffff',
    panel: '#f6f7f9',
    line: '#d5dae1',
    text: '#1c2330',
    muted: '#566071',
    link: '#0b62b8',
    good: '#0a7d4f',
    bad: '#b3261e',
    warn: '#8a5a00',
    cut: '#fbe3e1',
  },
  LINES.light,
);

export const DARK = withLines(
  {
    page: '#12161d',
    panel: '#1a2029',
    line: '#343d4b',
    text: '#e6eaf0',
    muted: '#a2adbd',
    link: '#7cb8f5',
    good: '#53c995',
    bad: '#ff8a80',
    warn: '#e8b04a',
    cut: '#4a2422',
  },
  LINES.dark,
);

const variables = (palette: Palette): string =>
  Object.entries(palette)
    .map(([name, value]) => `--${name}: ${value};`)
    .join(' ');

/** The style sheet's variables: as the system has it, or as `data-theme` says. */
export const paletteCss = (): string => `
:root { color-scheme: light dark; ${variables(LIGHT)} }
@media (prefers-color-scheme: dark) { :root:not([data-theme='light']) { ${variables(DARK)} } }
:root[data-theme='dark'] { color-scheme: dark; ${variables(DARK)} }
:root[data-theme='light'] { color-scheme: light; }
`;
