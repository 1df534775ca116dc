/** Runs npm scripts at the same time, prints what each printed once it has ended, and fails if one failed. */
import { spawn } from 'node:child_process';

/** @param {string} name */
async function run(name) {
  const child = spawn('npm', ['run', '--silent', name], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += String(text)));
  const code = await new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
  process.stdout.write(`${name}: ${code === 0 ? 'passed' : 'failed'}\n${output}`);
  return code === 0;
}

const passed = await Promise.all(process.argv.slice(2).map(run));
process.exitCode = passed.every(Boolean) ? 0 : 1;
