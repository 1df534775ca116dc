/** Fingerprints of what a run trusts to stay the same, how they are compared, and what made a checkpoint. */
import { badInput } from '../base/errors';
import { listed } from '../base/text';
import type { Fingerprints } from '../models';
import type { Tokenizer } from '../tokenizer';
import type { Engine } from '../engine/types';
import { packageVersion } from '../base/version';

/** What an adapter was trained on. null: it cannot be told, because a program gave the part itself. */
export interface BaseIdentity {
  /** config.json and the weights. */
  model: Fingerprints;
  tokenizer: Fingerprints | null;
  chatTemplate: Fingerprints | null;
}

/** The name of its fingerprint. */
export const CHAT_TEMPLATE = 'the chat template';

/** Fingerprints of a tokenizer's files and its chat template; null if the caller gave the tokenizer itself. */
export function tokenizerIdentity({
  fingerprints: own,
}: Tokenizer): Pick<BaseIdentity, 'tokenizer' | 'chatTemplate'> {
  if (own === undefined) return { tokenizer: null, chatTemplate: null };
  const { files, chatTemplate } = own;
  return {
    tokenizer: files,
    chatTemplate: chatTemplate === null ? {} : { [CHAT_TEMPLATE]: chatTemplate },
  };
}

/** The names that differ; none if it was not known before. */
export function changed(before: Fingerprints | null, now: Fingerprints | null): string[] {
  if (before === null) return [];
  const names = new Set([...Object.keys(before), ...Object.keys(now ?? {})]);
  return [...names].filter((name) => before[name] !== now?.[name]);
}

/**
 * @param step of the checkpoint
 * @param names of the files that are others now
 * @param advice what to do, with `them` for the files
 * @throws BAD_INPUT naming files of the model's folder that are not those of the checkpoint
 */
export function checkModelFolder(
  directory: string,
  step: number,
  names: readonly string[],
  advice = (them: string) => `restore ${them}, or start a new run`,
): void {
  if (names.length === 0) return;
  const [have, them] = names.length > 1 ? ['have', 'them'] : ['has', 'it'];
  throw badInput(
    `${listed(names)} in ${directory} ${have} changed since the checkpoint of step ${step}, whose adapter was trained on what was there before; ${advice(them)}.`,
  );
}

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
