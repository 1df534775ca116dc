/**
 * `npm run make-tiny`: compiles scripts/tiny-model against the compiled program in dist and runs it, with the
 * options that scripts/tiny-model/main.ts names. Needs `npm run build`.
 */
import { spawnSync } from 'node:child_process';
import { join, relative } from 'node:path';
import { build } from 'esbuild';

const ROOT = join(import.meta.dirname, '..');
const OUT = join(ROOT, 'build', 'tiny-model');

/**
 * Types come from the sources, code from dist: one copy of the engine, which finds its addon.
 *
 * @type {import('esbuild').Plugin}
 */
const compiledProgram = {
  name: 'compiled-program',
  setup(build) {
    build.onResolve({ filter: /^(\.\.\/)+src\// }, ({ path, resolveDir }) => {
      const below = relative(join(ROOT, 'src'), join(resolveDir, path));
      return { path: join(ROOT, 'dist', below), external: true };
    });
  },
};

await build({
  entryPoints: [join(ROOT, 'scripts', 'tiny-model', 'main.ts')],
  outfile: join(OUT, 'main.cjs'),
  bundle: true,
  platform: 'node',
  format: 'cjs',
  plugins: [compiledProgram],
  logLevel: 'warning',
});
const { status } = spawnSync(process.execPath, [join(OUT, 'main.cjs'), ...process.argv.slice(2)], {
  stdio: 'inherit',
});
process.exitCode = status ?? 1;
