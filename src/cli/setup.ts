/** `acoer setup`: finds or fetches libtorch and builds the native addon, as `npm ci` does in a checkout. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import type { Command } from 'commander';

const SCRIPT = join(__dirname, '..', '..', 'scripts', 'setup.mjs');

/** Runs in its own process: set-up must work even if nothing in `dist` but this file can be trusted. */
function runScript(args: string[]): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [SCRIPT, ...args], { stdio: 'inherit' });
    child.on('error', reject);
    child.on('close', (code, signal) => resolve(code ?? (signal === 'SIGINT' ? 130 : 1)));
  });
}

export function define(command: Command): void {
  command
    .option(
      '--flavour <name>',
      'cpu, cu126, cu128, cu130 or auto (CUDA if an NVIDIA driver is present); the choice is remembered',
    )
    .action(async (flags: { flavour?: string }) => {
      process.exitCode = await runScript(flags.flavour === undefined ? [] : ['--flavour', flags.flavour]);
    });
}
