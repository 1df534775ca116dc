/** Time limits on synchronous work count only the time the process was running. */
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { builtCli, ended } from '../helpers/cli';

test('work with a time limit finishes even if the process is stopped in the middle', async () => {
  const module = join(dirname(builtCli()), '..', 'base', 'deadline.js');
  const code = `const { withinTime } = require(${JSON.stringify(module)});
    const { writeSync } = require('node:fs');
    const busy = () => { const end = performance.now() + 200; writeSync(1, 'begun '); while (performance.now() < end); return 'done'; };
    console.log(withinTime(2000, busy)?.value ?? 'late');`;
  const child = spawn(process.execPath, ['-e', code]);
  const end = ended(child);
  await new Promise((resolve) => child.stdout.once('data', resolve));
  child.kill('SIGSTOP');
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  child.kill('SIGCONT');
  expect(await end).toMatchObject({ code: 0, stdout: expect.stringMatching(/done\n$/) as string });
});

test('work is not ended because others have the processor', async () => {
  const module = join(dirname(builtCli()), '..', 'base', 'deadline.js');
  // All on one processor: the work gets a sixth of it.
  const code = `const { withinTime } = require(${JSON.stringify(module)});
    const { readFileSync } = require('node:fs');
    const usedMs = () => Number(readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')[0]) / 1e6;
    const busy = () => { const end = usedMs() + 150; while (usedMs() < end); return 'done'; };
    console.log(withinTime(450, busy)?.value ?? 'late');
    console.log(withinTime(450, () => { for (;;); })?.value ?? 'late');`;
  const one = ['-c', '0', process.execPath, '-e'];
  const loops = Array.from({ length: 5 }, () => spawn('taskset', [...one, 'for (;;);']));
  try {
    expect(await ended(spawn('taskset', [...one, code]))).toMatchObject({ code: 0, stdout: 'done\nlate\n' });
  } finally {
    for (const loop of loops) loop.kill('SIGKILL');
  }
});
