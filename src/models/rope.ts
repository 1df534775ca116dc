/**
 * The rotary embedding that a config.json asks for: `rope_scaling` in the hub's files, `rope_parameters` in
 * those of transformers 5. What the numbers mean is computed in native/core/ops/rope.cpp.
 */
import { z } from 'zod';
import type { NativeRopeScaling } from '../engine/binding';
import { shownJson } from '../base/json';
import { flag, number, positive } from './config-file';
import { badFile } from './files';

const atLeast1 = number.min(1, 'must be at least 1');
const kind = z.string('must be the name of a rope scaling').nullish();

/** A `rope_scaling` or `rope_parameters`; null counts as absent. */
export const ropeEntry = z
  .looseObject(
    {
      rope_type: kind,
      type: kind,
      rope_theta: positive.nullish(),
      factor: atLeast1.nullish(),
      original_max_position_embeddings: positive.nullish(),
      low_freq_factor: positive.nullish(),
      high_freq_factor: positive.nullish(),
      attention_factor: positive.nullish(),
      beta_fast: positive.nullish(),
      beta_slow: positive.nullish(),
      mscale: number.nullish(),
      mscale_all_dim: number.nullish(),
      truncate: flag,
    },
    'must be an object',
  )
  .nullish();
type RopeEntry = NonNullable<z.output<typeof ropeEntry>>;

interface RopeConfig {
  rope_scaling?: RopeEntry | null;
  rope_parameters?: RopeEntry | null;
  rope_theta?: number | null;
  original_max_position_embeddings?: number | null;
}

export interface Rope {
  /** null: not named. */
  theta: number | null;
  scaling: NativeRopeScaling | null;
}

/** The fields that a kind of scaling reads. Any other changes what transformers computes, or is a mistake. */
const FIELDS: ReadonlyMap<string, readonly string[]> = new Map([
  ['default', []],
  ['llama3', ['factor', 'low_freq_factor', 'high_freq_factor', 'original_max_position_embeddings']],
  [
    'yarn',
    ['factor', 'original_max_position_embeddings', 'attention_factor', 'beta_fast', 'beta_slow', 'mscale', 'mscale_all_dim', 'truncate'],
  ],
]); // prettier-ignore
const ALWAYS = ['rope_type', 'type', 'rope_theta'];

/** An empty `rope_scaling` counts as absent, as in transformers, where a filled one goes first. */
function chosenEntry(config: RopeConfig): [key: 'rope_scaling' | 'rope_parameters', entry: RopeEntry] {
  const { rope_scaling: old, rope_parameters: current } = config;
  if (old && Object.keys(old).length > 0) return ['rope_scaling', old];
  return ['rope_parameters', current ?? {}];
}

const kindOf = (entry: RopeEntry): string => entry.rope_type ?? entry.type ?? 'default';

/** The part that the engine does not compute, in words with its field, or null. */
export function unsupportedRope(config: RopeConfig): string | null {
  const [key, entry] = chosenEntry(config);
  const fields = FIELDS.get(kindOf(entry));
  if (fields === undefined) {
    const name = (entry.rope_type ?? null) === null ? 'type' : 'rope_type';
    return `rope scaling (${key}.${name} = ${shownJson(entry[name])})`;
  }
  const other = Object.keys(entry).find(
    (field) => (entry[field] ?? null) !== null && !fields.includes(field) && !ALWAYS.includes(field),
  );
  return other === undefined ? null : `rope scaling (${key}.${other.slice(0, 100)})`;
}

/** YaRN's factor of cosine and sine, where `attention_factor` does not name it. */
function yarnAttention(factor: number, entry: RopeEntry): number {
  const magnitude = (scale: number): number => 0.1 * scale * Math.log(factor) + 1;
  const { mscale, mscale_all_dim: all } = entry;
  return mscale && all ? magnitude(mscale) / magnitude(all) : magnitude(1);
}

/** @throws BAD_FILE for a field that is missing or contradicts another */
export function readRope(config: RopeConfig, maxPositions: number, path: string): Rope {
  const [key, entry] = chosenEntry(config);
  const theta = entry.rope_theta ?? config.rope_theta ?? null;
  const kind = kindOf(entry);
  if (kind === 'default') return { theta, scaling: null };
  const need = (field: 'factor' | 'low_freq_factor' | 'high_freq_factor'): number => {
    const value = entry[field];
    if (value === undefined || value === null) throw badFile(`${path} lacks ${key}.${field}`);
    return value;
  };
  const factor = need('factor');
  const originalPositions =
    config.original_max_position_embeddings ?? entry.original_max_position_embeddings ?? maxPositions;
  if (kind === 'yarn') {
    const attentionFactor = entry.attention_factor ?? yarnAttention(factor, entry);
    if (!(attentionFactor > 0)) throw badFile(`${path}: ${key}.mscale gives no factor above 0`);
    const { beta_fast: betaFast, beta_slow: betaSlow, truncate } = entry;
    return {
      theta,
      scaling: {
        kind,
        factor,
        originalPositions,
        betaFast: betaFast ?? 32,
        betaSlow: betaSlow ?? 1,
        truncate: truncate ?? true,
        attentionFactor,
      },
    };
  }
  const lowFrequencyFactor = need('low_freq_factor');
  const highFrequencyFactor = need('high_freq_factor');
  if (highFrequencyFactor <= lowFrequencyFactor) {
    throw badFile(
      `${path}: ${key}.high_freq_factor ${highFrequencyFactor} must be above low_freq_factor ${lowFrequencyFactor}`,
    );
  }
  return {
    theta,
    scaling: { kind: 'llama3', factor, originalPositions, lowFrequencyFactor, highFrequencyFactor },
  };
}
