/** What a data set's name refers to: an embedded task, a known data set, a path, or an id on the hub. */
import { existsSync } from 'node:fs';
import { didYouMean } from '../config';
import { type AcoerError, badUsage } from '../base/errors';
import { splitRevision } from '../hub';
import type { ColumnNames, GradingColumns } from './columns';
import { FORMAT_NAMES, isDataFile } from './open';
import { EMBEDDED_TASKS, isEmbeddedTask } from './tiny/task';

/** A data set known by name: where it is on the hub and how it is laid out. */
export interface KnownDataset {
  repo: string;
  /** As in `SplitChoice`. */
  config: string | null;
  /** null for a data set made for evaluation, with nothing to train on. */
  trainSplit: string | null;
  evalSplit: string;
  columns: ColumnNames;
  grading?: GradingColumns;
  summary: string;
}

/**
 * MATH, in its several copies: worked solutions with a boxed answer, one configuration or file per subject.
 */
const MATH_COLUMNS: ColumnNames = { problem: 'problem', solution: 'solution', level: 'level' };

const known = (
  entry: Pick<KnownDataset, 'repo' | 'columns' | 'summary'> & Partial<KnownDataset>,
): KnownDataset => ({ config: null, trainSplit: 'train', evalSplit: 'test', ...entry });

export const KNOWN_DATASETS: Readonly<Record<string, KnownDataset>> = {
  'numinamath-tir': known({
    repo: 'AI-MO/NuminaMath-TIR',
    columns: { problem: 'problem', solution: 'solution' },
    summary: "the paper's training data: worked solutions with Python",
  }),
  math: known({
    repo: 'EleutherAI/hendrycks_math',
    config: '*',
    columns: MATH_COLUMNS,
    summary: 'MATH, all seven subjects',
  }),
  gsm8k: known({
    repo: 'openai/gsm8k',
    config: 'main',
    columns: { problem: 'question', answer: 'answer' },
    summary: 'GSM8K; the answer follows ####',
  }),
  math500: known({
    repo: 'HuggingFaceH4/MATH-500',
    trainSplit: null,
    columns: { problem: 'problem', answer: 'answer', level: 'level', id: 'unique_id' },
    summary: '500 problems of the MATH test split, levels 1 to 5',
  }),
  'math-hard': known({
    repo: 'lighteval/MATH-Hard',
    config: '*',
    columns: MATH_COLUMNS,
    summary: 'level 5 of MATH',
  }),
  aime25: known({
    repo: 'math-ai/aime25',
    trainSplit: null,
    columns: { problem: 'problem', answer: 'answer', id: 'id' },
    summary: '30 problems with integer answers',
  }),
  olympiadbench: known({
    repo: 'Hothan/OlympiadBench',
    config: 'OE_TO_maths_en_COMP',
    trainSplit: null,
    // The name of its only split on the hub.
    evalSplit: 'train',
    columns: { problem: 'question', answer: 'final_answer', id: 'id' },
    grading: { tolerance: 'error', countRepeats: true },
    summary: 'open-ended, text-only mathematics in English',
  }),
};

/** Whether data of this name are the same for everybody. @param id without a revision */
export const isKnownName = (id: string): boolean => isEmbeddedTask(id) || Object.hasOwn(KNOWN_DATASETS, id);

export type DatasetPlace =
  | { kind: 'embedded' }
  | { kind: 'path'; path: string }
  | { kind: 'memory'; name: string }
  | { kind: 'hub'; repo: string; revision: string | null; known: KnownDataset | null };

const HUB_ID = /^[\w][\w.-]*\/[\w.-]+$/;

function unknownName(name: string): AcoerError {
  const names = [...Object.keys(EMBEDDED_TASKS), ...Object.keys(KNOWN_DATASETS)];
  const hint = didYouMean(name, names) || `; known names are ${names.join(', ')}`;
  return badUsage(
    `There is no data set "${name}"${hint}. You can also give org/name on the Hugging Face hub, or a file: ${FORMAT_NAMES}.`,
  );
}

/** Prefix of the name of an in-memory data set, which cannot be read again by name. */
const MEMORY = 'memory:';

/** The name of an in-memory data set in a run's configuration, so that no other is mistaken for it. */
export const memoryName = (name: string): string => `${MEMORY}${name.replaceAll('+', 'and')}`;

/** Known names go first: write `./math` for a folder called `math`. Throws BAD_CONFIG for an unknown name. */
export function resolveDatasetName(name: string): DatasetPlace {
  if (isEmbeddedTask(name)) return { kind: 'embedded' };
  if (name.startsWith(MEMORY)) return { kind: 'memory', name: name.slice(MEMORY.length) };
  const { id: plain, revision = null } = splitRevision(name);
  const known = Object.hasOwn(KNOWN_DATASETS, plain) ? KNOWN_DATASETS[plain]! : null;
  if (known !== null) return { kind: 'hub', repo: known.repo, revision, known };
  if (isDataFile(name) || /^\.{0,2}\//.test(name) || existsSync(name)) return { kind: 'path', path: name };
  if (!HUB_ID.test(plain) || revision === '') throw unknownName(name);
  const entry = Object.values(KNOWN_DATASETS).find(({ repo }) => repo.toLowerCase() === plain.toLowerCase());
  return { kind: 'hub', repo: plain, revision, known: entry ?? null };
}
