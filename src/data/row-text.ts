/** The columns of a row as JSON text, which takes little memory and from which nobody can change the data. */
import { types } from 'node:util';
import type { Row } from '../base/types';
import { BadRow } from './rows';

/** Deeper values would overflow the stack of JSON.stringify and of structuredClone. */
const MAX_DEPTH = 100;

/** An object as JSON.parse makes it, of whatever realm. */
function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/**
 * A value as JSON has it: whole numbers of 64 bits as numbers where they fit, else as text, times as ISO text,
 * bytes and numbers that are not finite as null. @throws BadRow naming `column` for what JSON cannot hold
 */
function jsonValue(value: unknown, column: string, depth: number): unknown {
  if (depth > MAX_DEPTH) throw new BadRow(`is nested more than ${MAX_DEPTH} levels deep in ${column}`);
  if (value === null || value === undefined || typeof value === 'string' || typeof value === 'boolean') {
    return value ?? null;
  }
  if (typeof value === 'number') return Number.isFinite(value) ? value : null;
  if (typeof value === 'bigint') {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : String(value);
  }
  if (typeof value !== 'object') throw new BadRow(`holds a ${typeof value} in ${column}, which JSON cannot`);
  if (types.isDate(value)) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (types.isUint8Array(value) || types.isAnyArrayBuffer(value)) return null;
  const list = ArrayBuffer.isView(value) ? Array.from(value as unknown as ArrayLike<unknown>) : value;
  if (Array.isArray(list)) return list.map((item) => jsonValue(item, column, depth + 1));
  if (!isPlain(value)) {
    throw new BadRow(`holds a ${value.constructor?.name ?? 'object'} in ${column}, which JSON cannot`);
  }
  const entries = Object.entries(value).filter(([, inner]) => inner !== undefined);
  return Object.fromEntries(entries.map(([name, inner]) => [name, jsonValue(inner, column, depth + 1)]));
}

/** @throws BadRow for a value that JSON cannot hold */
export function rowText(values: Readonly<Record<string, unknown>>): string {
  const columns = Object.entries(values).filter(([, value]) => value !== undefined);
  return JSON.stringify(
    Object.fromEntries(columns.map(([name, value]) => [name, jsonValue(value, name, 1)])),
  );
}

export const rowOf = (text: string): Row => JSON.parse(text) as Row;
