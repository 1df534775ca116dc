/** A link between two ranks that is taken down. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { builtCli, ROOT } from '../helpers/cli';
import { needs } from '../helpers/needs';

const NAME = `acoer-probe-${process.pid}`;
const ip = (...words: string[]): boolean => spawnSync('ip', ['netns', ...words]).status === 0;
const hasNamespaces = process.getuid?.() === 0 && ip('add', NAME) && ip('del', NAME);

needs('root and network namespaces (ip netns)', hasNamespaces).test(
  'scripts/cut-link.mjs: both ranks end by name, and the resumed run is that of one process',
  () => {
    builtCli();
    const script = join(ROOT, 'scripts', 'cut-link.mjs');
    const words = [script, '--timeout-s', '6'];
    const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toMatch(/^rank 0 after .*: Rank 1 .*\nrank 1 after .*: Rank 0 .*\nresumed: .*\n$/);
  },
);
