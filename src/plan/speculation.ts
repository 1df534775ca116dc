/** What decoding is expected to gain by proposed tokens: how many rows a step has, and how many tokens it makes. */
import type { DeviceKind } from './cost';

/** native/core/generate/plan.h: rows of a step in which proposals take part. */
const ROWS_WORTH_IT: Record<DeviceKind, number> = { cpu: 16, cuda: 128 };

/** Rows of a decode step of so many sequences, with what is proposed for them (plan.cpp, rowsOfStep). */
export function rowsOfStep(numSpeculativeTokens: number, sequences: number, kind: DeviceKind): number {
  const wanted = sequences * (1 + numSpeculativeTokens);
  return Math.max(sequences, Math.min(ROWS_WORTH_IT[kind], wanted));
}

/**
 * Rows and tokens of a sequence's step by the most that is proposed, on SmolLM2-135M in the last third of a run that
 * shortened its completions (docs/speculation.md). Assumed for every model.
 */
const MEASURED: readonly { proposed: number; rows: number; tokens: number }[] = [
  { proposed: 0, rows: 1, tokens: 1 },
  { proposed: 1, rows: 1.51, tokens: 1.24 },
  { proposed: 2, rows: 1.94, tokens: 1.31 },
  { proposed: 3, rows: 2.36, tokens: 1.34 },
  { proposed: 4, rows: 2.77, tokens: 1.36 },
  { proposed: 8, rows: 4.32, tokens: 1.37 },
];

type Axis = keyof (typeof MEASURED)[number];

/** Between two that were measured, along a line. */
function interpolated(along: Axis, at: number, of: Axis): number {
  const next = MEASURED.findIndex((one) => one[along] >= at);
  if (next <= 0) return MEASURED.at(next)![of];
  const [a, b] = [MEASURED[next - 1]!, MEASURED[next]!];
  return a[of] + ((at - a[along]) / (b[along] - a[along])) * (b[of] - a[of]);
}

export interface SpeculativeStep {
  /** Of a sequence, on average. */
  rows: number;
  tokens: number;
}

/** args.h: queries that a block of the card's attention takes, which reads keys and values once for them. */
const QUERIES_OF_BLOCK = 8;

/**
 * How often attention on a card reads the keys and values of a sequence in such a step. Mostly either nothing is
 * proposed or as much as may be.
 * @param group query heads of a key head
 */
export function cacheReads({ rows }: SpeculativeStep, group: number): number {
  if (rows === 1) return 1;
  const proposed = interpolated('rows', rows, 'proposed');
  const blocks = Math.ceil((1 + proposed) / Math.max(1, Math.floor(QUERIES_OF_BLOCK / group)));
  return 1 + ((rows - 1) / proposed) * (blocks - 1);
}

/** A step of so many sequences that decode together. */
export function speculativeStep(
  numSpeculativeTokens: number,
  sequences: number,
  kind: DeviceKind,
): SpeculativeStep {
  const room = rowsOfStep(numSpeculativeTokens, sequences, kind) / sequences;
  const rows = Math.min(room, interpolated('proposed', numSpeculativeTokens, 'rows'));
  return { rows, tokens: interpolated('rows', rows, 'tokens') };
}
