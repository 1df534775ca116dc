/** Reads a file of a run; whatever else has its name is named in the error. */
import type { z } from 'zod';
import { badInput, unreadable } from '../base/errors';
import { readRegularFileSync } from '../base/regular-file';

/** @throws BAD_INPUT naming `path` */
export function readRunFile(path: string, limit: number): Buffer {
  try {
    return readRegularFileSync(path, limit);
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

/** What `schema` makes of the content of the file at `path`. @throws BAD_INPUT naming the first entry that is wrong */
export function checked<Schema extends z.ZodType>(
  schema: Schema,
  path: string,
  content: unknown,
): z.output<Schema> {
  const { data, error } = schema.safeParse(content);
  if (error === undefined) return data;
  const { path: place, message } = error.issues[0]!;
  const what = `${place.join('.').slice(0, 100) || 'it'}: ${message.slice(0, 200)}`;
  throw badInput(`${path} is damaged: ${what}.`);
}
