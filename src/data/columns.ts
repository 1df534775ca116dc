/** Turns the columns of a row into a problem. */
import { badInput } from '../base/errors';
import type { Grading, Problem } from '../base/types';
import { BadRow } from './rows';
import { chatQuestion, type Question } from './chat';
import { goldFromAnswer, goldFromSolution } from './gold';

/** Names of columns; a dotted name reaches into a nested object. */
export interface ColumnNames {
  problem?: string;
  answer?: string;
  /** Worked solution, whose boxed answer is used when the row has no answer column. */
  solution?: string;
  level?: string;
  id?: string;
}

/** What a known data set says about judging its answers. */
export interface GradingColumns {
  /** Column with the tolerance of a number; rows may lack it. */
  tolerance: string;
  countRepeats: boolean;
}

type Role = keyof ColumnNames;
type Values = Readonly<Record<string, unknown>>;

/** Usual column names, in the order they are tried. */
export const USUAL: Readonly<Record<Role, readonly string[]>> = {
  problem: ['problem', 'question', 'prompt'],
  answer: ['answer', 'final_answer', 'gold', 'expected_answer', 'ground_truth'],
  solution: ['solution'],
  level: ['level', 'difficulty'],
  id: ['id', 'unique_id'],
};

const ROLES = Object.keys(USUAL) as Role[];

/** The problem in a row, before it gets an id. */
export type RowProblem = Omit<Problem, 'id' | 'row'> & { id: string | null };

/** Turns rows into problems; `ColumnMap` is how runs of `train` do. */
export interface RowMap {
  /** The columns to read. Throws BAD_INPUT when a required one is missing. */
  choose(file: string, columns: readonly string[]): readonly string[];
  /** Throws BadRow saying what is wrong with the row. */
  toProblem(values: Readonly<Record<string, unknown>>): RowProblem;
}

export class ColumnMap implements RowMap {
  constructor(
    private readonly given: ColumnNames,
    private readonly grading: GradingColumns | null = null,
    /** A row must have a reference answer. */
    private readonly needsGold = true,
  ) {}

  /** The columns to read. Throws BAD_INPUT when a configured or required one is missing. */
  choose(file: string, columns: readonly string[]): string[] {
    const has = (name: string) => columns.includes(head(name, columns));
    const given = (Object.keys(this.given) as Role[]).filter((role) => this.given[role] !== undefined);
    const gold = this.needsGold ? [this.goldRoles] : [];
    const needed: Role[][] = [['problem'], ...gold, ...given.map((role) => [role])];
    const missing = needed.find((roles) => !roles.some((role) => this.names(role).some(has)));
    if (missing !== undefined) {
      throw badInput(`${file} ${this.missing(missing, columns)}`);
    }
    const tolerance = this.grading === null ? [] : [this.grading.tolerance];
    const wanted = [...ROLES.flatMap((role) => this.names(role)), ...tolerance].filter(has);
    return [...new Set(wanted.map((name) => head(name, columns)))];
  }

  /** Throws BadRow saying what is wrong with the row. */
  toProblem(values: Values): RowProblem {
    const problem = this.find('problem', values);
    if (problem === null) throw new BadRow(this.missing(['problem'], Object.keys(values)));
    return {
      id: this.optional('id', values),
      ...questionOf(problem.value, problem.name),
      gold: this.gold(values),
      level: levelText(this.optional('level', values)),
      ...(this.grading !== null && { grading: gradingOf(this.grading, values) }),
    };
  }

  private gold(values: Values): string | null {
    const answer = this.find('answer', values);
    if (answer !== null) {
      const text = answerText(answer.value);
      if (text !== null) return goldFromAnswer(text);
      if (!this.needsGold) return null;
      throw new BadRow(`must have text, a number or a list of these in ${answer.name}`);
    }
    const solution = this.goldRoles.includes('solution') ? this.find('solution', values) : null;
    if (solution === null) {
      if (!this.needsGold) return null;
      throw new BadRow(this.missing(this.goldRoles, Object.keys(values)));
    }
    const text = solutionText(solution.value);
    if (!this.needsGold) return text === null ? null : goldFromSolution(text) || null;
    if (text !== null) return goldFromSolution(text);
    throw new BadRow(`must have text or a list of strings in ${solution.name}`);
  }

  /** If the user named the answer column, there is no falling back to another. */
  private get goldRoles(): Role[] {
    return this.given.answer === undefined ? ['answer', 'solution'] : ['answer'];
  }

  private names(role: Role): readonly string[] {
    const given = this.given[role];
    return given === undefined ? USUAL[role] : [given];
  }

  private find(role: Role, values: Values): Found | null {
    return firstOf(this.names(role), values);
  }

  private optional(role: Role, values: Values): string | null {
    const found = this.find(role, values);
    return found === null ? null : scalarText(found.value);
  }

  private missing(roles: readonly Role[], columns: readonly string[]): string {
    const wanted = roles.flatMap((role) => this.names(role)).join(', ');
    const settings = roles.map((role) => `columns.${role}`).join(' or ');
    return `has no value for the ${roles.join(' or ')} (looked for ${wanted}); its columns are ${columns.join(', ')}. Set the right one with ${settings}${
      roles.includes('answer') ? ', or judge without references (docs/tasks.md)' : ''
    }`;
  }
}

function gradingOf({ tolerance, countRepeats }: GradingColumns, values: Values): Grading {
  const value = valueAt(values, tolerance);
  const size = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  return typeof size === 'number' && size > 0 && size < Infinity
    ? { tolerance: size, countRepeats }
    : { countRepeats };
}

/** The column that a possibly dotted name begins with. */
export function head(name: string, columns: readonly string[]): string {
  return columns.includes(name) ? name : name.split('.')[0]!;
}

function valueAt(values: Values, name: string): unknown {
  if (Object.hasOwn(values, name)) return values[name];
  let value: unknown = values;
  for (const key of name.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Values)[key];
  }
  return value;
}

/** A column that has a value in the row. */
export interface Found {
  name: string;
  value: unknown;
}

/** The first of these columns that has a value. */
export function firstOf(names: readonly string[], values: Values): Found | null {
  for (const name of names) {
    const value = valueAt(values, name);
    if (value !== undefined && value !== null) return { name, value };
  }
  return null;
}

/** Text and numbers (including 64-bit integers from Parquet) as text; null for anything else. */
export function scalarText(value: unknown): string | null {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint'
    ? String(value)
    : null;
}

/** A list's items as texts; null if the list is empty or an item has no text. */
function itemTexts(value: unknown): string[] | null {
  if (!Array.isArray(value)) return null;
  const texts = value.map(scalarText);
  return texts.length > 0 && texts.every((text) => text !== null) ? texts : null;
}

/** OlympiadBench and others have a list, whose items together are the answer. */
const answerText = (value: unknown): string | null =>
  scalarText(value) ?? itemTexts(value)?.join(', ') ?? null;

export const solutionText = (value: unknown): string | null =>
  scalarText(value) ?? itemTexts(value)?.join('\n\n') ?? null;

/** Plain text, or a chat that ends with the user's message. @throws BadRow */
export function questionOf(value: unknown, column: string): Question {
  if (Array.isArray(value)) return chatQuestion(value, column);
  const question = scalarText(value);
  if (question === null) throw new BadRow(`must have text in ${column}, or a list of messages`);
  if (question.trim() === '') throw new BadRow(`has an empty ${column}`);
  return { question };
}

/** `Level 5` and 5 are the same level. */
const levelText = (level: string | null): string | null =>
  level === null ? null : (/^Level (\S+)$/.exec(level.trim())?.[1] ?? level.trim());
