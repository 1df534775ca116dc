/**
 * Reads the golden fixtures of test/fixtures/native (made by scripts/fixtures) into the engine's own records.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { TensorTable } from '../../src/engine/binding';
import { createEngine } from '../../src/engine/engine';
import type { DeviceName, Engine, PackedSequences } from '../../src/engine/types';

export const FIXTURES = join(__dirname, '..', 'fixtures', 'native');
export const modelDirectory = (name: string): string => join(FIXTURES, 'models', name);
export const adapterDirectory = (name: string): string => join(FIXTURES, 'adapters', name);

export interface FixtureTensor {
  dtype: string;
  shape: number[];
  data: Float64Array;
}
export type Fixture = Record<string, FixtureTensor>;

const READERS: Record<string, { bytes: number; read: (view: DataView, at: number) => number }> = {
  F64: { bytes: 8, read: (view, at) => view.getFloat64(at, true) },
  F32: { bytes: 4, read: (view, at) => view.getFloat32(at, true) },
  I32: { bytes: 4, read: (view, at) => view.getInt32(at, true) },
};

/** Every tensor of a safetensors file as float64; `path` is absolute or relative to the fixtures. */
export function readSafetensors(path: string): Fixture {
  const file = readFileSync(path.startsWith('/') ? path : join(FIXTURES, path));
  const headerLength = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString('utf8', 8, 8 + headerLength)) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  const fixture: Fixture = {};
  for (const [name, entry] of Object.entries(header)) {
    if (name === '__metadata__') continue;
    const reader = READERS[entry.dtype];
    if (!reader) throw new Error(`${path}: ${name} has the unread type ${entry.dtype}`);
    const [begin, end] = entry.data_offsets;
    const view = new DataView(file.buffer, file.byteOffset + 8 + headerLength + begin, end - begin);
    const data = new Float64Array((end - begin) / reader.bytes);
    for (let i = 0; i < data.length; i++) data[i] = reader.read(view, i * reader.bytes);
    fixture[name] = { dtype: entry.dtype, shape: entry.shape, data };
  }
  return fixture;
}

export function readJson<T>(path: string): T {
  return JSON.parse(readFileSync(join(FIXTURES, path), 'utf8')) as T;
}

/** The data of one tensor; a missing name means a broken fixture. */
export function values(fixture: Fixture, name: string): Float64Array {
  const tensor = fixture[name];
  if (!tensor) throw new Error(`the fixture has no tensor ${name}`);
  return tensor.data;
}

/** The tensors under `prefix`, keyed by the rest of their names. */
export function under(fixture: Fixture, prefix: string): Fixture {
  return Object.fromEntries(
    Object.entries(fixture)
      .filter(([name]) => name.startsWith(prefix))
      .map(([name, tensor]) => [name.slice(prefix.length), tensor]),
  );
}

export function packed(fixture: Fixture): PackedSequences {
  return {
    ids: Int32Array.from(values(fixture, 'ids')),
    offsets: Int32Array.from(values(fixture, 'offsets')),
    promptLengths: Int32Array.from(values(fixture, 'promptLengths')),
  };
}

/** Completion tokens of each sequence. */
export function completionLengths({ offsets, promptLengths }: PackedSequences): number[] {
  return Array.from(promptLengths, (prompt, b) => offsets[b + 1]! - offsets[b]! - prompt);
}

/** One number per sequence, repeated for each of its completion tokens. */
export function perToken(sequences: PackedSequences, numbers: ArrayLike<number>): Float64Array {
  return Float64Array.from(
    completionLengths(sequences).flatMap((length, b) => new Array<number>(length).fill(numbers[b]!)),
  );
}

/** Largest absolute difference; throws if the lengths differ or a number is not finite. */
export function maxDifference(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  if (actual.length !== expected.length)
    throw new Error(`${actual.length} numbers where ${expected.length} were expected`);
  let largest = 0;
  for (let i = 0; i < expected.length; i++) {
    const difference = Math.abs(actual[i]! - expected[i]!);
    if (!Number.isFinite(difference)) throw new Error(`number ${i} is ${actual[i]}, expected ${expected[i]}`);
    largest = Math.max(largest, difference);
  }
  return largest;
}

/** Largest absolute difference over the largest expected absolute value: the relative error of one tensor. */
export function relativeError(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  let scale = 0;
  for (let i = 0; i < expected.length; i++) scale = Math.max(scale, Math.abs(expected[i]!));
  const difference = maxDifference(actual, expected);
  return difference === 0 ? 0 : difference / scale;
}

/** The tensors that differ by more than `tolerance` relatively, are missing or misshapen; [] if all agree. */
export function differingTensors(actual: TensorTable, expected: TensorTable, tolerance: number): string[] {
  const wrong = Object.keys(actual)
    .filter((name) => !(name in expected))
    .map((name) => `${name}: not expected`);
  for (const [name, { shape, data }] of Object.entries(expected)) {
    const got = actual[name];
    if (!got) wrong.push(`${name}: missing`);
    else if (got.shape.join() !== shape.join()) wrong.push(`${name}: shape ${got.shape}, expected ${shape}`);
    else {
      const error = relativeError(got.data, data);
      if (!(error <= tolerance)) wrong.push(`${name}: relative error ${error.toExponential(1)}`);
    }
  }
  return wrong;
}

/**
 * Runs `use` with an engine that is disposed afterwards: on the CPU, or on the device in ACOER_TEST_DEVICE
 * (scripts/gpu-check). `threads` 0: the engine decides.
 */
export async function withEngine<T>(use: (engine: Engine) => Promise<T>, threads = 0): Promise<T> {
  const device = (process.env.ACOER_TEST_DEVICE || 'cpu') as DeviceName;
  const engine = await createEngine({ device, threads });
  try {
    return await use(engine);
  } finally {
    await engine.dispose();
  }
}
