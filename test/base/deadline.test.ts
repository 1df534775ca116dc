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
