#!/usr/bin/env node
/** Runs clang-format on native/; `--check` only lists the files that differ (exit 1). */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { createRequire } from 'node:module';
import { packageRoot } from './lib/paths.mjs';

const folders = ['addon', 'core', 'cuda', 'fuzz', 'lock', 'ranks', 'test'].map((name) =>
  join(packageRoot, 'native', name),
);
const files = folders.flatMap((folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(cpp|h|cu|cuh)$/.test(name))
    .map((name) => join(folder, name)),
);
const program = createRequire(import.meta.url).resolve('clang-format-node/build/cli.js');
const mode = process.argv.includes('--check') ? ['--dry-run', '--Werror'] : ['-i'];
const result = spawnSync(process.execPath, [program, ...mode, ...files], { stdio: 'inherit' });
if (mode[0] === '--dry-run' && result.status !== 0) {
  process.stderr.write('native/ is not formatted: run `npm run format`.\n');
}
process.exitCode = result.status ?? 1;
