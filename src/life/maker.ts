/** What made a checkpoint. */
import type { Engine } from '../engine/types';
import { packageVersion } from '../base/version';

/** If one of these changes, rounding may differ. */
export interface Maker {
  acoer: string;
  node: string;
  libtorch: string;
  device: string;
  /** The processor or GPU; another one may use different kernels. */
  deviceName: string;
  threads: number;
}

export function thisMaker({ deviceInfo }: Engine): Maker {
  const { libtorch, device, name: deviceName, threads } = deviceInfo;
  return { acoer: packageVersion(), node: process.version, libtorch, device, deviceName, threads };
}

/** One sentence if another version, processor or device wrote the checkpoint; otherwise null. */
export function otherMaker(maker: Maker, engine: Engine): string | null {
  const now = thisMaker(engine);
  const names = Object.keys(now) as (keyof Maker)[];
  const changes = names.filter((name) => maker[name] !== undefined && maker[name] !== now[name]);
  if (changes.length === 0) return null;
  const list = changes.map((name) => `${name} ${maker[name]}, now ${now[name]}`).join('; ');
  return `The checkpoint was written on a different set-up (${list}): later numbers may differ by rounding.`;
}
