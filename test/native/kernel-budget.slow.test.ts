/** The CUDA kernels' registers, shared memory and spills against their budget (`scripts/gpu/kernel-budget.mjs`). */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fakeProgram, temporaryFolder } from '../helpers/fake-libtorch';
import { needs } from '../helpers/needs';

jest.setTimeout(20 * 60_000);

const ROOT = join(__dirname, '..', '..');

function checkBudget(env: NodeJS.ProcessEnv): { status: number | null; output: string } {
  const script = join(ROOT, 'scripts', 'gpu', 'kernel-budget.mjs');
  // Two of the four architectures: the script's own run has them all.
  const words = [script, '--check', '--arch', '86,90'];
  const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8', env });
  return { status, output: stdout + stderr };
}

const hasNvcc = spawnSync('nvcc', ['--version']).status === 0;

needs('nvcc', hasNvcc).test('kernels are within their budgets', () => {
  expect(checkBudget(process.env)).toEqual({
    status: 0,
    output: expect.stringMatching(/\d+ kernels are within their budgets/),
  });
});

const report = (name: string, local: number, registers: number): string =>
  [
    `ptxas info    : Compiling entry function '${name}' for 'sm_86'`,
    `ptxas info    : Function properties for ${name}`,
    `    ${local} bytes stack frame, ${local} bytes spill stores, 0 bytes spill loads`,
    `ptxas info    : Used ${registers} registers, used 1 barriers, 32 bytes smem, 400 bytes cmem[0]`,
  ].join('\n');

test('what takes more than its budget fails the check', () => {
  const folder = temporaryFolder();
  const reports = [report('acoer_norm_bf16', 8, 200), report('acoer_unknown', 0, 32)].join('\n');
  fakeProgram(folder, 'nvcc', `cat <<'END'\n${reports}\nEND`);
  const { status, output } = checkBudget({ ...process.env, PATH: `${folder}:/bin:/usr/bin` });
  expect(status).toBe(1);
  expect(output).toMatch(/acoer_norm_bf16 on sm_86: 200 registers, not \d+/);
  expect(output).toContain('acoer_norm_bf16 on sm_86 takes 16 bytes of local memory');
  expect(output).toContain('acoer_unknown has no budget');
  expect(output).toContain('acoer_norm_fp32 is in the budget and nowhere else');
});
