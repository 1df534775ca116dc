/** The self-check of a card as the engine uses it: cached, in a process of its own, and left out by family. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { NativeKernelFigure, NativeModelSpec } from '../../src/engine/binding';
import { type CheckedModel, kernelFaults } from '../../src/engine/kernel-check';

const SPEC: NativeModelSpec = {
  ...{ vocabSize: 512, hiddenSize: 64, intermediateSize: 128, numLayers: 2, numHeads: 2, numKvHeads: 1 },
  ...{ headDim: 64, maxPositions: 128, rmsNormEps: 1e-6, ropeTheta: 1e6, ropeScaling: null },
  ...{ tieWordEmbeddings: true, qkvBias: false, qkNorm: true },
};
const MODEL: CheckedModel = { spec: SPEC, dtype: 'bfloat16', quantization: null };
const RIGHT: NativeKernelFigure = {
  kernel: 'norm_bf16',
  family: 'decode',
  error: 2e-3,
  allowed: 1e-2,
  fault: '',
};
const ATTENTION: NativeKernelFigure = {
  ...{ kernel: 'attention_bf16_128_g2', family: 'decode', error: 0.13, allowed: 0.01 },
  fault: "differs from libtorch's operations on this card (1.3e-01, allowed 1.0e-02)",
};

/** A card with kernels in a file, and a child that does `does` and leaves a line for each time it is started. */
function card({ does, kernels = 'kernels', id = 'a' }: { does: string; kernels?: string; id?: string }) {
  const folder = mkdtempSync(join(tmpdir(), 'acoer-kernel-check-'));
  const [file, child, starts] = [join(folder, 'kernels'), join(folder, 'child.cjs'), join(folder, 'starts')];
  writeFileSync(file, kernels);
  writeFileSync(starts, '');
  const begin = `require('node:fs').appendFileSync(${JSON.stringify(starts)}, 'x');`;
  writeFileSync(child, `${begin}\n${does}`);
  const facts = { file, card: 'RTX', cardId: id, driver: '580.1' };
  const native = { kernelFacts: () => Promise.resolve(facts) };
  const env: NodeJS.ProcessEnv = { XDG_CACHE_HOME: folder };
  interface Changes {
    env?: NodeJS.ProcessEnv;
    model?: CheckedModel;
    toldAfterMs?: number;
  }
  const check = ({ model = MODEL, toldAfterMs, ...changes }: Changes = {}) =>
    kernelFaults(native, { device: 'cuda:0', libtorch: '2.14.1' }, model, {
      env: { ...env, ...changes.env },
      child,
      toldAfterMs,
    });
  const started = () => readFileSync(starts, 'utf8').length;
  const checks = join(folder, 'acoer', 'gpu-check');
  const files = () => readdirSync(checks).map((name) => join(checks, name));
  return { check, started, files, checks, facts };
}
const prints = (figures: NativeKernelFigure[]) =>
  `process.stdout.write(${JSON.stringify(JSON.stringify(figures))});`;

test('right kernels are compared once for a shape, a type and a card', async () => {
  const one = card({ does: prints([RIGHT]) });
  expect(await one.check()).toEqual([]);
  expect(await one.check()).toEqual([]);
  expect(one.started()).toBe(1);
  const [file] = one.files();
  expect(file).toMatch(/[0-9a-f]{64}\.json$/);
  const { madeWith, figures, crash } = JSON.parse(readFileSync(file!, 'utf8'));
  expect(madeWith).toMatchObject({ card: 'RTX', driver: '580.1', libtorch: '2.14.1', dtype: 'bfloat16' });
  expect({ figures, crash }).toEqual({ figures: [RIGHT], crash: null });

  await one.check({ model: { ...MODEL, dtype: 'float32' } });
  await one.check({ model: { ...MODEL, spec: { ...SPEC, headDim: 128 } } });
  one.facts.cardId = 'b';
  await one.check();
  writeFileSync(one.facts.file, 'other kernels');
  await one.check();
  await one.check({ model: { ...MODEL, quantization: 'nf4' } });
  expect(one.started()).toBe(6);
  await one.check({ model: { ...MODEL, spec: { ...SPEC, numLayers: 48 } } });
  expect(one.started()).toBe(6);
});

test('ACOER_KERNELS=check compares again, and so does a file that was cut off', async () => {
  const one = card({ does: prints([RIGHT]) });
  await one.check();
  await one.check({ env: { ACOER_KERNELS: 'check' } });
  expect(one.started()).toBe(2);
  writeFileSync(one.files()[0]!, '{"figures": [');
  await one.check();
  expect(one.started()).toBe(3);
});

test('what differs is left out by family, with the kernel, the figures and the file', async () => {
  const wrong = {
    ...RIGHT,
    kernel: 'swiglu_bf16',
    family: 'training',
    fault: 'writes beside its result',
  } as const;
  const one = card({ does: prints([RIGHT, ATTENTION, { ...ATTENTION, kernel: 'combine_bf16' }, wrong]) });
  for (const again of [false, true]) {
    const faults = await one.check();
    const told = `please report ${one.files()[0]}`;
    expect({ again, faults }).toEqual({
      again,
      faults: [
        {
          family: 'decode',
          why: `acoer's CUDA kernel attention_bf16_128_g2 differs from libtorch's operations on this card (1.3e-01, allowed 1.0e-02): decoding uses libtorch's operations, at about half the speed; ${told}`,
        },
        {
          family: 'training',
          why: `acoer's CUDA kernel swiglu_bf16 writes beside its result: scoring and training use libtorch's operations; ${told}`,
        },
      ],
    });
  }
  expect(one.started()).toBe(1);
});

test.each([
  ["process.kill(process.pid, 'SIGSEGV'); setTimeout(() => {}, 10_000);", 'SIGSEGV'],
  ['process.exit(7);', 'exit code 7'],
])('a child that crashes leaves out all kernels: %s', async (does, ending) => {
  const one = card({ does });
  const faults = await one.check();
  expect(faults.map(({ family }) => family)).toEqual([
    'decode',
    'int8_cache',
    'graphs',
    'training',
    'adamw',
    'dropout',
    'quantised',
  ]);
  expect(faults[0]!.why).toBe(
    `the comparison of acoer's CUDA kernels with libtorch's operations ended with ${ending}: none of them is used on this card; please report ${one.files()[0]}`,
  );
  expect(await one.check()).toEqual(faults);
  expect(one.started()).toBe(1);
});

test.each([
  ["process.stderr.write('out of memory'); process.exitCode = 3;", 'out of memory'],
  ["process.kill(process.pid, 'SIGKILL');", 'SIGKILL'],
])('what has nothing to do with the kernels is no finding: %s', async (does, why) => {
  const said: string[] = [];
  const emit = jest.spyOn(process, 'emitWarning').mockImplementation((text) => void said.push(String(text)));
  const one = card({ does });
  expect(await one.check()).toEqual([]);
  emit.mockRestore();
  expect(said.join()).toContain(why);
  await one.check();
  expect(one.started()).toBe(2);
});

test('whoever waits long is told for what', async () => {
  const said: string[] = [];
  const emit = jest.spyOn(process, 'emitWarning').mockImplementation((text) => void said.push(String(text)));
  await card({ does: prints([RIGHT]) }).check();
  expect(said).toEqual([]);
  await card({ does: `setTimeout(() => { ${prints([RIGHT])} }, 300);` }).check({ toldAfterMs: 1 });
  emit.mockRestore();
  expect(said).toEqual([
    expect.stringContaining("acoer compares its CUDA kernels with libtorch's operations"),
  ]);
});

test('a cache that cannot be written costs another comparison', async () => {
  const one = card({ does: prints([ATTENTION]) });
  mkdirSync(join(one.checks, '..'), { recursive: true });
  rmSync(one.checks, { recursive: true, force: true });
  writeFileSync(one.checks, 'a file where the folder should be');
  const emit = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  expect(await one.check()).toHaveLength(1);
  expect(await one.check()).toHaveLength(1);
  emit.mockRestore();
  expect(one.started()).toBe(2);
});

test('nothing is compared on a CPU, in float64 and without kernels', async () => {
  const never = { kernelFacts: () => Promise.reject(new Error('asked')) };
  const device = { device: 'cuda:0', libtorch: '2.14.1' };
  expect(await kernelFaults(never, { ...device, device: 'cpu' }, MODEL)).toEqual([]);
  expect(await kernelFaults(never, device, { ...MODEL, dtype: 'float64' })).toEqual([]);
  expect(await kernelFaults({ kernelFacts: () => Promise.resolve(null) }, device, MODEL)).toEqual([]);
});
