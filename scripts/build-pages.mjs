/**
 * Bundles the scripts and styles of the report and the live page into dist/pages, each as one file: a report
 * contains them, and the live page's server sends them.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

const ROOT = join(import.meta.dirname, '..');
const OUT = join(ROOT, 'dist', 'pages');

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
  tsconfig: 'tsconfig.browser.json',
  // The notices of bundled packages.
  legalComments: 'inline',
  logLevel: 'warning',
});
