/** A dataset from a JSON Lines file: one problem a line, under any of the names data sets use. */
import { readFile } from 'node:fs/promises';

import { AcoerError, errorCode, errorMessage } from '../errors';
import type { Problem } from '../types';
import type { Dataset } from './index';

const QUESTION_KEYS = ['question', 'problem', 'prompt'] as const;
const GOLD_KEYS = ['answer', 'gold'] as const;

function field(row: Record<string, unknown>, keys: readonly string[], at: string): string {
  const key = keys.find((name) => row[name] !== undefined && row[name] !== null);
  if (key === undefined) throw new AcoerError('BAD_INPUT', `${at}: needs one of ${keys.join(', ')}`);
  const value = row[key];
  if (typeof value === 'string' || typeof value === 'number') return String(value);
  throw new AcoerError('BAD_INPUT', `${at}: ${key} must be a string or a number`);
}

const optional = (value: unknown): string | null =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : null;

function parseLine(line: string, at: string, index: number): Problem {
  let row: unknown;
  try {
    row = JSON.parse(line);
  } catch (error) {
    throw new AcoerError('BAD_INPUT', `${at} is not valid JSON: ${errorMessage(error)}`, { cause: error });
  }
  if (typeof row !== 'object' || row === null || Array.isArray(row)) {
    throw new AcoerError('BAD_INPUT', `${at} must be a JSON object`);
  }
  const record = row as Record<string, unknown>;
  return {
    id: optional(record.id) ?? String(index),
    question: field(record, QUESTION_KEYS, at),
    gold: field(record, GOLD_KEYS, at),
    level: optional(record.level),
  };
}

/** Blank lines are passed over; a bad line is named by its number. */
export async function readJsonLines(path: string): Promise<Dataset> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const reason = errorCode(error) === 'ENOENT' ? 'no such file' : errorMessage(error);
    throw new AcoerError('BAD_INPUT', `Cannot read dataset ${path}: ${reason}`, { cause: error });
  }
  const problems: Problem[] = [];
  text.split('\n').forEach((line, i) => {
    if (line.trim() !== '') problems.push(parseLine(line, `${path} line ${i + 1}`, problems.length));
  });
  if (problems.length === 0) throw new AcoerError('BAD_INPUT', `Dataset ${path} holds no problems`);
  return { name: path, size: problems.length, get: (index) => problems[index] };
}
