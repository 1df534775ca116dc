/**
 * What the config.json of every family has in common: zod types for its fields, and the messages for wrong
 * ones.
 */
import { z } from 'zod';
import type { Dtype } from '../engine/types';
import { shownJson } from '../json';
import { badFile } from './files';

const MAX_SIZE = 2 ** 31;

/** null counts as absent. */
const optional = <T extends z.ZodType>(type: T) => type.nullish();

const text = (what: string) => z.string(`must be ${what}`);
export const size = z
  .int('must be a whole number')
  .min(1, 'must be at least 1')
  .max(MAX_SIZE, `must be at most ${MAX_SIZE}`);
export const positive = z.number('must be a number').positive('must be above 0');
export const flag = optional(z.boolean('must be true or false'));

const rope = optional(
  z.object(
    {
      rope_type: optional(text('the name of a rope scaling')),
      type: optional(text('the name of a rope scaling')),
      factor: z.unknown().optional(),
      rope_theta: optional(positive),
    },
    'must be an object',
  ),
);

/**
 * Fields of dense decoders in Hugging Face's layout, in the hub's form (rope_theta, torch_dtype) and that of
 * transformers 5.
 */
export const DECODER_FIELDS = {
  vocab_size: size,
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: size,
  num_attention_heads: size,
  num_key_value_heads: optional(size),
  head_dim: optional(size),
  max_position_embeddings: optional(size),
  rms_norm_eps: optional(positive),
  rope_theta: optional(positive),
  rope_scaling: rope,
  rope_parameters: rope,
  tie_word_embeddings: flag,
  hidden_act: optional(text('the name of an activation')),
  dtype: optional(text('the name of a type')),
  torch_dtype: optional(text('the name of a type')),
  quantization_config: z.unknown().optional(),
};

/** Parses `value` with `schema`. @throws BAD_FILE naming `path` and the field */
export function parseFields<T extends z.ZodType>(schema: T, value: unknown, path: string): z.output<T> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const field = issue!.path.map(String).join('.').slice(0, 200);
  if (field === '') throw badFile(`${path} must hold a JSON object, not ${shownJson(value)}`);
  const given = issue!.path.reduce<unknown>(
    (owner, key) => (owner as Record<PropertyKey, unknown>)?.[key],
    value,
  );
  if (given === undefined || given === null) throw badFile(`${path} lacks ${field}`);
  throw badFile(`${path}: ${field} ${issue!.message}, not ${shownJson(given)}`);
}

type Rope = z.output<typeof rope>;

/** The part of a rope entry that goes beyond plain rotary embeddings, or null. */
export function ropeScaling(key: string, entry: Rope): string | null {
  for (const name of ['rope_type', 'type'] as const) {
    const type = entry?.[name] ?? 'default';
    if (type !== 'default') return `rope scaling (${key}.${name} = ${shownJson(type)})`;
  }
  return entry?.factor === undefined ? null : `rope scaling (${key}.factor)`;
}

/** The type to compute in. float16 is never used, because its range is too small for training. */
const DTYPES: ReadonlyMap<string, Dtype> = new Map([
  ['float32', 'float32'],
  ['float16', 'float32'],
  ['bfloat16', 'bfloat16'],
  ['float64', 'float64'],
]);

/** @throws BAD_FILE for an unknown type */
export function dtypeOf(config: { dtype?: string | null; torch_dtype?: string | null }, path: string): Dtype {
  const name = config.dtype || config.torch_dtype || 'float32';
  const dtype = DTYPES.get(name);
  if (dtype !== undefined) return dtype;
  throw badFile(
    `${path} has the unknown dtype ${shownJson(name)}; supported are ${[...DTYPES.keys()].join(', ')}`,
  );
}
