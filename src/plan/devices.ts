/**
 * Devices that a run can be planned for: the engine's, or a GPU that is not there. The figures of the latter are
 * the manufacturers' (data sheets, dense rates, no sparsity) unless `source` says otherwise; this program measured
 * none of them.
 */
import { needMethods, needString } from '../base/border';
import type { Dtype, Engine } from '../engine/types';
import { badUsage } from '../base/errors';
import type { Ceilings } from './cost';
import { gpuShares, type GpuCeilings, type GpuShares } from './gpu-time';

/** What a plan needs to know about a device. Bytes and rates are decimal. */
export interface PlanDevice {
  name: string;
  kind: 'cpu' | 'cuda';
  totalBytes: number;
  /** Available to a run before anything is loaded. */
  freeBytes: number;
  /** null: not measured, so no times are predicted. */
  ceilings: GpuCeilings | null;
  /** What the engine is expected to reach of the ceilings. */
  expected: Expectation;
  source: string;
}

export type Expectation =
  | {
      by: 'fractions';
      /** Fraction of the read bandwidth, while decoding. */
      bandwidth: number;
      /** Fraction of the matmul rate, in training, scoring and prefill. */
      matmul: number;
    }
  /** Counted launches and bytes, at these shares of the rates (gpu-time.ts). */
  | { by: 'counts'; shares: GpuShares };

/**
 * Between the median and the slowest of docs/measurements, on two cores each of three processors: a decode step with a
 * LoRA takes 0.85 to 3.0 floors (median 1.4; many sequences of a small model take longest), training and prompts 1.05 to
 * 2.0 (median 1.25).
 */
export const CPU_EXPECTATION: Expectation = { by: 'fractions', bandwidth: 0.6, matmul: 0.7 };
/** Nothing has run on a GPU: the shares are assumptions. */
export const gpuExpectation = (ceilings: Ceilings): Expectation => ({
  by: 'counts',
  shares: gpuShares(ceilings),
});

interface Card {
  title: string;
  totalBytes: number;
  bytesPerSecond: number;
  /** Dense matrix products by weight type; fp32 without TF32. */
  flopsPerSecond: Record<Dtype, number>;
  source: string;
}

const MIB = 1024 * 1024;
const DATA_SHEET = "manufacturer's data sheet; not measured by us";

const MEASURED_BY_OTHERS =
  'copy bandwidth and bf16 rate as measured by others on one card, the rest from the data sheet; not measured by us';

export const DEVICE_NAMES = ['A6000', '4090', 'A100', 'H100', 'H200'] as const;

const CARDS: Readonly<Record<Lowercase<(typeof DEVICE_NAMES)[number]>, Card>> = {
  a6000: {
    title: 'NVIDIA RTX A6000',
    // 49,140 MiB with ECC off; ECC takes a sixteenth.
    totalBytes: 48.3e9,
    bytesPerSecond: 768e9,
    flopsPerSecond: { bfloat16: 155e12, float32: 38.7e12, float64: 0.6e12 },
    source: `${DATA_SHEET}; memory with ECC on`,
  },
  '4090': {
    title: 'NVIDIA GeForce RTX 4090',
    totalBytes: 24_564 * MIB,
    bytesPerSecond: 1008e9,
    flopsPerSecond: { bfloat16: 165e12, float32: 82.6e12, float64: 1.3e12 },
    source: DATA_SHEET,
  },
  a100: {
    title: 'NVIDIA A100 80GB SXM',
    totalBytes: 81_920 * MIB,
    bytesPerSecond: 2039e9,
    flopsPerSecond: { bfloat16: 312e12, float32: 19.5e12, float64: 9.7e12 },
    source: DATA_SHEET,
  },
  h100: {
    title: 'NVIDIA H100 80GB SXM',
    totalBytes: 81_559 * MIB,
    // The data sheet has 3.35 TB/s and 989 TFLOP/s.
    bytesPerSecond: 3.0e12,
    flopsPerSecond: { bfloat16: 798e12, float32: 67e12, float64: 34e12 },
    source: MEASURED_BY_OTHERS,
  },
  h200: {
    title: 'NVIDIA H200 SXM',
    totalBytes: 139 * 1024 * MIB,
    bytesPerSecond: 4.3e12,
    flopsPerSecond: { bfloat16: 790e12, float32: 67e12, float64: 34e12 },
    source: MEASURED_BY_OTHERS,
  },
};

/** A known GPU by name, case-insensitive. Throws BAD_CONFIG listing the names. */
export function namedDevice(name: string, dtype: Dtype): PlanDevice {
  needString('the name of the device', name);
  const known = DEVICE_NAMES.find((candidate) => candidate === name.toUpperCase());
  const card = known && CARDS[known.toLowerCase() as Lowercase<typeof known>];
  if (card === undefined) {
    throw badUsage(`There is no device "${name}"; choose one of ${DEVICE_NAMES.join(', ')}.`);
  }
  const ceilings = {
    readBytesPerSecond: card.bytesPerSecond,
    matmulFlopsPerSecond: card.flopsPerSecond[dtype],
    float32FlopsPerSecond: card.flopsPerSecond.float32,
  };
  return {
    name: card.title,
    kind: 'cuda',
    totalBytes: card.totalBytes,
    freeBytes: card.totalBytes,
    ceilings,
    expected: gpuExpectation(ceilings),
    source: card.source,
  };
}

/**
 * The engine's device. Memory already held by the process counts as available: the plan includes it.
 *
 * @param dtype type in which to measure read bandwidth and matmul rate (seconds, 0.6 GB); without it no times
 */
export async function engineDevice(engine: Engine, dtype?: Dtype): Promise<PlanDevice> {
  needMethods('engine', engine, ['memory']);
  const { device, name, threads } = engine.deviceInfo;
  const kind = device === 'cpu' ? 'cpu' : 'cuda';
  const { deviceFreeBytes, deviceTotalBytes, residentBytes } = await engine.memory();
  const measured = dtype === undefined ? null : await engine.measureCeilings(dtype);
  const ceilings =
    measured === null || kind === 'cpu' || dtype === 'float32'
      ? measured
      : {
          ...measured,
          float32FlopsPerSecond: (await engine.measureCeilings('float32')).matmulFlopsPerSecond,
        };
  return {
    name: kind === 'cpu' ? `${name}, ${threads} threads` : name,
    kind,
    totalBytes: deviceTotalBytes,
    freeBytes: deviceFreeBytes + (kind === 'cpu' ? residentBytes : 0),
    ceilings,
    // Without ceilings no time is expected.
    expected: kind === 'cpu' || ceilings === null ? CPU_EXPECTATION : gpuExpectation(ceilings),
    source: 'measured now',
  };
}
