/**
 * Whether the CUDA kernels compute on this card what libtorch's operations do: compared in a process of its own when a
 * model of some shape is first loaded here, and remembered in a file. What differs is left out, family by family.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { errorMessage } from '../base/errors';
import { readRegularFileSync, readTextSync } from '../base/regular-file';
import { sha256 } from '../base/sha256';
import { warnOnce } from '../base/warnings';
import {
  type Dtype,
  KERNEL_FAMILIES,
  type KernelFamily,
  type NativeEngine,
  type NativeKernelFigure,
  type NativeModelSpec,
  type Quantization,
} from './binding';
import type { DeviceInfo } from './types';

/** What the comparison is for: the sizes of a model, and how its weights are kept. */
export interface CheckedModel {
  spec: NativeModelSpec;
  dtype: Dtype;
  quantization: Quantization | null;
}

export interface KernelFault {
  family: KernelFamily;
  /** A sentence. */
  why: string;
}

/** The file of a comparison: what it was made with, and what it found. */
interface KernelCheck {
  madeWith: Record<string, unknown>;
  figures: NativeKernelFigure[];
  /** How the process of the comparison ended, if it did not come to its end. */
  crash: string | null;
}

/** A comparison takes a second or two; the first use of a card by libtorch some more. */
const LIMIT_MS = 300_000;
/** Whoever waits longer than this is told for what. */
const TOLD_AFTER_MS = 5_000;
const MAX_KERNEL_BYTES = 64 * 2 ** 20;

/** What follows from a fault, as the end of a sentence. */
const INSTEAD: Record<KernelFamily, string> = {
  decode: "decoding uses libtorch's operations, at about half the speed",
  int8_cache: "decoding over an int8 cache uses libtorch's operations, which is slower",
  graphs: 'decoding starts its steps piece by piece',
  training: "scoring and training use libtorch's operations",
  adamw: "the optimiser uses libtorch's operations",
  dropout: 'masks of dropout are made on the CPU',
  quantised:
    "the weights are made plain by libtorch's operations for every product, and decoding starts its steps piece by piece",
};

/** Beside the folder of `cacheFolder` in scripts/lib/paths.mjs. */
export function checksFolder(env: NodeJS.ProcessEnv = process.env): string {
  const { XDG_CACHE_HOME: xdg, HOME: home } = env;
  const named = xdg !== undefined && isAbsolute(xdg);
  const base = named ? xdg : join(home === undefined || home === '' ? homedir() : home, '.cache');
  return join(base, 'acoer', 'gpu-check');
}

/** What a kernel sees of it. */
function shapeOf({ spec, dtype, quantization }: CheckedModel): Record<string, unknown> {
  const { vocabSize, hiddenSize, intermediateSize, numHeads, numKvHeads, headDim, qkNorm, rmsNormEps } = spec;
  const { ropeTheta, ropeScaling } = spec;
  return {
    ...{ dtype, quantization, vocabSize, hiddenSize, intermediateSize, numHeads, numKvHeads, headDim },
    ...{ qkNorm, rmsNormEps, ropeTheta, ropeScaling },
  };
}

/** null: there is none, or it was cut off when it was written. */
function readCheck(path: string): KernelCheck | null {
  try {
    const read = JSON.parse(readTextSync(path)) as Partial<KernelCheck>;
    return Array.isArray(read.figures) && read.crash !== undefined ? (read as KernelCheck) : null;
  } catch {
    return null;
  }
}

/** The kernels are used all the same if the file cannot be written: the next process compares again. */
function writeCheck(path: string, check: KernelCheck): void {
  const temporary = `${path}.${process.pid}`;
  try {
    mkdirSync(join(path, '..'), { recursive: true });
    writeFileSync(temporary, `${JSON.stringify(check, null, 2)}\n`);
    renameSync(temporary, path);
  } catch (error) {
    warnOnce(`The comparison of acoer's CUDA kernels could not be kept: ${errorMessage(error)}`);
  }
}

export const CHILD = join(__dirname, 'kernel-check-child.js');
/** Exit code of a child that says why nothing was compared. */
export const NOT_COMPARED = 3;

type ChildResult = Pick<KernelCheck, 'figures' | 'crash'> | { notCompared: string };

/** How a child that compared nothing to its end came to its own: by its fault, or by what happened around it. */
function endOf(code: number | null, signal: NodeJS.Signals | null, late: boolean, err: string): ChildResult {
  if (code === NOT_COMPARED) return { notCompared: err.trim() };
  if (late) return { figures: [], crash: `no answer within ${LIMIT_MS / 1000} s` };
  // What a system that runs out of memory, or somebody, sends.
  if (signal === 'SIGKILL' || signal === 'SIGTERM') return { notCompared: `the process got ${signal}` };
  return { figures: [], crash: signal ?? `exit code ${code}` };
}

/** A wrong address ends CUDA for its process, so the process is another one. */
function compareInChild(child: string, device: string, model: CheckedModel): Promise<ChildResult> {
  return new Promise((resolve) => {
    const started = spawn(process.execPath, [child, device, JSON.stringify(model)], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let late = false;
    const timer = setTimeout(() => (late = started.kill('SIGKILL')), LIMIT_MS);
    let [out, err] = ['', ''];
    started.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
    started.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
    started.on('error', (error) => resolve({ notCompared: errorMessage(error) }));
    started.on('close', (code, signal) => {
      clearTimeout(timer);
      resolve(
        code === 0
          ? { figures: JSON.parse(out) as NativeKernelFigure[], crash: null }
          : endOf(code, signal, late, err),
      );
    });
  });
}

/** One sentence for each family with a fault. */
export function faultsOf(
  { figures, crash }: Pick<KernelCheck, 'figures' | 'crash'>,
  file: string,
): KernelFault[] {
  const told = `please report ${file}`;
  if (crash !== null) {
    const why = `the comparison of acoer's CUDA kernels with libtorch's operations ended with ${crash}: none of them is used on this card; ${told}`;
    return KERNEL_FAMILIES.map((family) => ({ family, why }));
  }
  return KERNEL_FAMILIES.flatMap((family) => {
    const wrong = figures.find((figure) => figure.family === family && figure.fault !== '');
    if (wrong === undefined) return [];
    return [
      { family, why: `acoer's CUDA kernel ${wrong.kernel} ${wrong.fault}: ${INSTEAD[family]}; ${told}` },
    ];
  });
}

/** Decoding says itself, where it happens, why it is slower. */
function tell(faults: readonly KernelFault[]): void {
  for (const { family, why } of faults) {
    if (family !== 'decode' && family !== 'int8_cache' && family !== 'graphs') warnOnce(why);
  }
}

/** The families that this model must not use, from the file or, the first time, from a comparison. */
export async function kernelFaults(
  native: Pick<NativeEngine, 'kernelFacts'>,
  { device, libtorch }: Pick<DeviceInfo, 'device' | 'libtorch'>,
  model: CheckedModel,
  { env = process.env, child = CHILD, toldAfterMs = TOLD_AFTER_MS } = {},
): Promise<KernelFault[]> {
  if (device === 'cpu' || model.dtype === 'float64') return [];
  const facts = await native.kernelFacts({});
  if (facts === null) return [];
  const { file, ...card } = facts;
  const kernels = sha256(readRegularFileSync(file, MAX_KERNEL_BYTES));
  const madeWith = { kernels, libtorch, ...card, ...shapeOf(model) };
  const path = join(checksFolder(env), `${sha256(JSON.stringify(madeWith))}.json`);
  let check = env['ACOER_KERNELS'] === 'check' ? null : readCheck(path);
  if (check === null) {
    const waiting = setTimeout(() => {
      warnOnce(
        "acoer compares its CUDA kernels with libtorch's operations on this card, once for models of this shape; where code has to be compiled first, that may take a minute.",
      );
    }, toldAfterMs);
    const result = await compareInChild(child, device, model).finally(() => clearTimeout(waiting));
    if ('notCompared' in result) {
      warnOnce(`acoer's CUDA kernels were not compared with libtorch's operations: ${result.notCompared}`);
      return [];
    }
    check = { madeWith, ...result };
    writeCheck(path, check);
  }
  const faults = faultsOf(check, path);
  tell(faults);
  return faults;
}
