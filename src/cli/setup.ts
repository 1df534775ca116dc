/** `acoer setup`: finds or fetches libtorch and takes the prebuilt addon or builds one, as npm's install script does. */
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
    .option('--from-source', 'compile the engine even where a prebuilt one is installed')
    .action(async (flags: { flavour?: string; fromSource?: boolean }) => {
      const flavour = flags.flavour === undefined ? [] : ['--flavour', flags.flavour];
      process.exitCode = await runScript([...flavour, ...(flags.fromSource ? ['--from-source'] : [])]);
    });
}
