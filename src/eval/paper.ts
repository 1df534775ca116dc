/**
 * Figures of the ACOER paper, tables 3 ("Main results") and 4 ("Per-difficulty comparison"), copied to be
 * shown next to ours. Only the change in tokens from the paper's base is computed from them.
 */

export interface PaperFigure {
  /** In percent. */
  accuracy: number;
  /** Mean total tokens. */
  tokens: number;
}

/** Our names of the paper's benchmarks, in its order, with its titles. */
export const PAPER_BENCHMARKS = {
  math500: 'MATH-500',
  'math-hard': 'MATH-Hard',
  aime25: 'AIME 2025',
  olympiadbench: 'OlympiadBench',
} as const;

export type PaperBenchmark = keyof typeof PAPER_BENCHMARKS;

export const isPaperBenchmark = (name: string): name is PaperBenchmark =>
  Object.hasOwn(PAPER_BENCHMARKS, name);

type Cells = readonly [accuracy: number, tokens: number];

const figures = (math500: Cells, mathHard: Cells, aime25: Cells, olympiadbench: Cells) => {
  const figure = ([accuracy, tokens]: Cells): PaperFigure => ({ accuracy, tokens });
  return {
    math500: figure(math500),
    'math-hard': figure(mathHard),
    aime25: figure(aime25),
    olympiadbench: figure(olympiadbench),
  } satisfies Record<PaperBenchmark, PaperFigure>;
};

/** Table 3: stable methods at step 1,200 (GRPO-acc: 1,000), collapsed ones also (†) at their peak. */
export const PAPER_TABLE_3: readonly { method: string; figures: Record<PaperBenchmark, PaperFigure> }[] = [
  { method: 'Base', figures: figures([88.8, 5553], [76.4, 7958], [30.0, 13298], [55.3, 9579]) },
  { method: 'ACOER', figures: figures([88.4, 2134], [78.1, 3509], [36.7, 8922], [55.3, 5177]) },
  { method: 'GRPO-acc', figures: figures([88.8, 4091], [77.6, 6277], [33.3, 11836], [56.2, 7982]) },
  { method: 'beta=0 (s42)', figures: figures([84.4, 2255], [70.9, 4149], [10.0, 8191], [33.2, 4767]) },
  { method: 'GRPO+LP', figures: figures([68.0, 561], [40.2, 965], [0.0, 1810], [32.5, 1222]) },
  { method: 'GRPO+LP @400 †', figures: figures([86.8, 3279], [77.8, 5186], [30.0, 11643], [54.2, 7150]) },
  { method: 'GRPO-LEAD', figures: figures([55.8, 1005], [36.1, 1716], [10.0, 4594], [30.1, 2358]) },
  { method: 'GRPO-LEAD @200 †', figures: figures([88.8, 4718], [77.9, 7110], [20.0, 13396], [56.4, 8780]) },
  { method: 'ReCut', figures: figures([65.6, 943], [46.8, 1859], [10.0, 4853], [31.3, 2401]) },
  { method: 'ReCut @400 †', figures: figures([87.6, 2487], [73.6, 4191], [30.0, 9933], [55.0, 5888]) },
];

/** Table 4, on MATH-500: by level, the base and ACOER at step 1,200. */
export const PAPER_TABLE_4: readonly { level: string; base: PaperFigure; acoer: PaperFigure }[] = [
  { level: '1', base: { accuracy: 97.7, tokens: 2814 }, acoer: { accuracy: 97.7, tokens: 603 } },
  { level: '2', base: { accuracy: 95.6, tokens: 3266 }, acoer: { accuracy: 96.7, tokens: 845 } },
  { level: '3', base: { accuracy: 91.4, tokens: 4374 }, acoer: { accuracy: 92.4, tokens: 1580 } },
  { level: '4', base: { accuracy: 89.8, tokens: 6062 }, acoer: { accuracy: 90.6, tokens: 2071 } },
  { level: '5', base: { accuracy: 78.4, tokens: 8404 }, acoer: { accuracy: 74.6, tokens: 3986 } },
];
