/** Fields of config.json files: their zod types, and the messages for wrong ones. */
import { z } from 'zod';
import type { Dtype } from '../engine/types';
import { shownJson } from '../base/json';
import { badFile } from './files';

const MAX_SIZE = 2 ** 31;

export const text = (what: string) => z.string(`must be ${what}`);
export const size = z
  .int('must be a whole number')
  .min(1, 'must be at least 1')
  .max(MAX_SIZE, `must be at most ${MAX_SIZE}`);
export const number = z.number('must be a number');
export const positive = number.positive('must be above 0');
/** Like every field that may be absent, it may also be null. */
export const flag = z.boolean('must be true or false').nullish();

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
