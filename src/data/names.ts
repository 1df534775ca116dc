/** What a data set's name means: the embedded task, one of the sets known by name, a path, or an id on the hub. */
import { existsSync } from 'node:fs';
import { didYouMean } from '../config';
import { AcoerError } from '../errors';
import type { ColumnNames, GradingColumns } from './columns';
import { FORMAT_NAMES, isDataFile } from './open';

/** A set known by name: where it lies on the hub, and how it is laid out there. */
export interface KnownDataset {
  repo: string;
  /** As in `SplitChoice`. */
  config: string | null;
  /** null: made for evaluation, with nothing to train on. */
  trainSplit: string | null;
  evalSplit: string;
  columns: ColumnNames;
  grading?: GradingColumns;
  summary: string;
}

/** MATH in its several copies: worked solutions with the answer boxed, one configuration or file a subject. */
const MATH_COLUMNS: ColumnNames = { problem: 'problem', solution: 'solution', level: 'level' };

export const KNOWN_DATASETS: Readonly<Record<string, KnownDataset>> = {
  'numinamath-tir': {
    repo: 'AI-MO/NuminaMath-TIR',
    config: null,
    trainSplit: 'train',
    evalSplit: 'test',
    columns: { problem: 'problem', solution: 'solution' },
    summary: "the paper's training data: worked solutions with Python",
  },
  math: {
    repo: 'EleutherAI/hendrycks_math',
    config: '*',
    trainSplit: 'train',
    evalSplit: 'test',
    columns: MATH_COLUMNS,
    summary: 'MATH, all seven subjects',
  },
  gsm8k: {
    repo: 'openai/gsm8k',
    config: 'main',
    trainSplit: 'train',
    evalSplit: 'test',
    columns: { problem: 'question', answer: 'answer' },
    summary: 'GSM8K: the answer stands behind ####',
  },
  math500: {
    repo: 'HuggingFaceH4/MATH-500',
    config: null,
    trainSplit: null,
    evalSplit: 'test',
    columns: { problem: 'problem', answer: 'answer', level: 'level', id: 'unique_id' },
    summary: '500 problems of the MATH test split, levels 1 to 5',
  },
  'math-hard': {
    repo: 'lighteval/MATH-Hard',
    config: '*',
    trainSplit: 'train',
    evalSplit: 'test',
    columns: MATH_COLUMNS,
    summary: 'level 5 of MATH',
  },
  aime25: {
    repo: 'math-ai/aime25',
    config: null,
    trainSplit: null,
    evalSplit: 'test',
    columns: { problem: 'problem', answer: 'answer', id: 'id' },
    summary: '30 problems with whole numbers for answers',
  },
  olympiadbench: {
    repo: 'Hothan/OlympiadBench',
    config: 'OE_TO_maths_en_COMP',
    trainSplit: null,
    // The hub calls its only split so.
    evalSplit: 'train',
    columns: { problem: 'question', answer: 'final_answer', id: 'id' },
    grading: { tolerance: 'error', countRepeats: true },
    summary: 'open-ended, text-only mathematics in English',
  },
};

export type DatasetPlace =
  | { kind: 'tiny' }
  | { kind: 'path'; path: string }
  | { kind: 'memory'; name: string }
  | { kind: 'hub'; repo: string; revision: string | null; known: KnownDataset | null };

const HUB_ID = /^[\w][\w.-]*\/[\w.-]+$/;

function unknownName(name: string): AcoerError {
  const names = ['tiny', ...Object.keys(KNOWN_DATASETS)];
  const hint = didYouMean(name, names) || `; known names are ${names.join(', ')}`;
  return new AcoerError(
    'BAD_CONFIG',
    `There is no data set "${name}"${hint}. Else give org/name of the Hugging Face hub, or a file: ${FORMAT_NAMES}.`,
  );
}

/** Stands before the name of a data set that a program brought in memory: nothing else can read it again. */
const MEMORY = 'memory:';

/** What a run's configuration calls a data set in memory, so that no other is taken for it. */
export const memoryName = (name: string): string => `${MEMORY}${name.replaceAll('+', 'and')}`;

/** Known names come first: a folder called `math` is named `./math`. Throws BAD_CONFIG for a name that means nothing. */
export function resolveDatasetName(name: string): DatasetPlace {
  if (name === 'tiny') return { kind: 'tiny' };
  if (name.startsWith(MEMORY)) return { kind: 'memory', name: name.slice(MEMORY.length) };
  const at = name.indexOf('@');
  const plain = at < 0 ? name : name.slice(0, at);
  const revision = at < 0 ? null : name.slice(at + 1);
  const known = Object.hasOwn(KNOWN_DATASETS, plain) ? KNOWN_DATASETS[plain]! : null;
  if (known !== null) return { kind: 'hub', repo: known.repo, revision, known };
  if (isDataFile(name) || /^\.{0,2}\//.test(name) || existsSync(name)) return { kind: 'path', path: name };
  if (!HUB_ID.test(plain) || revision === '') throw unknownName(name);
  const entry = Object.values(KNOWN_DATASETS).find(({ repo }) => repo.toLowerCase() === plain.toLowerCase());
  return { kind: 'hub', repo: plain, revision, known: entry ?? null };
}
