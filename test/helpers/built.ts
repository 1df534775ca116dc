/** What the tests need to be built: the addon, which `npm run build` makes, and `dist`, which is made here. */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(__dirname, '..', '..');
const CLI = join(ROOT, 'dist', 'cli', 'main.js');
const ADDONS = ['acoer.node', 'lock.node', 'ranks.node'].map((name) => join(ROOT, 'build', 'Release', name));

const newest = (folder: string): number =>
  Math.max(
    ...readdirSync(folder, { recursive: true, encoding: 'utf8' }).map(
      (name) => statSync(join(folder, name)).mtimeMs,
    ),
  );

export const hasAddons = (): boolean => ADDONS.every((path) => existsSync(path));

/** Path of the compiled program, which is recompiled if a source is newer. */
export function builtCli(): string {
  const isOld = ['.', 'packages/verify'].some((folder) => {
    const [src, dist] = [join(ROOT, folder, 'src'), join(ROOT, folder, 'dist')];
    return !existsSync(dist) || newest(src) > newest(dist);
  });
  if (!existsSync(CLI) || isOld) {
    const tsc = spawnSync('npm', ['run', '--silent', 'build:ts'], { cwd: ROOT, encoding: 'utf8' });
    if (tsc.status !== 0) throw new Error(`npm run build:ts failed:\n${tsc.stdout}${tsc.stderr}`);
  }
  return CLI;
}
