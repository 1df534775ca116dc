/**
 * Bundles the scripts and styles of the report and the live page into dist/pages, each as one file: a report
 * contains them, and the live page's server sends them. Needs the compiled dist/drawing/palette.js.
 */
import { mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { build } from 'esbuild';

const ROOT = join(import.meta.dirname, '..');
const OUT = join(ROOT, 'dist', 'pages');

const { paletteCss } = createRequire(import.meta.url)('../dist/drawing/palette.js');

/**
 * The style sheet imports its colours from here.
 *
 * @type {import('esbuild').Plugin}
 */
const palette = {
  name: 'palette',
  setup(build) {
    build.onResolve({ filter: /^acoer:palette$/ }, ({ path }) => ({ path, namespace: 'palette' }));
    build.onLoad({ filter: /.*/, namespace: 'palette' }, () => ({ contents: paletteCss(), loader: 'css' }));
  },
};

mkdirSync(OUT, { recursive: true });
await build({
  absWorkingDir: ROOT,
  entryPoints: {
    report: 'src/report/browser/report.ts',
    style: 'src/report/browser/style.css',
    watch: 'src/watch/browser/watch.ts',
    'watch-style': 'src/watch/browser/watch.css',
  },
  outdir: OUT,
  bundle: true,
  minify: true,
  format: 'iife',
  target: ['chrome111', 'firefox113', 'safari16.4'],
  plugins: [palette],
  tsconfig: 'tsconfig.browser.json',
  // The notices of bundled packages.
  legalComments: 'inline',
  logLevel: 'warning',
});
