/** This machine as a device to plan for. */
import { needMethods } from '../base/border';
import type { Dtype, Engine } from '../engine/types';
import { CPU_EXPECTATION, gpuExpectation, type PlanDevice } from './devices';

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
  const ceilings = dtype === undefined ? null : await engine.measureCeilings(dtype);
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
