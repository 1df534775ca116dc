/** What the verifier says. */
export const VERDICT_STATUSES = [
  'correct',
  'incorrect',
  'unparseable',
  'timeout',
  'gold-unparseable',
] as const;
export type VerdictStatus = (typeof VERDICT_STATUSES)[number];

export interface Verdict {
  correct: boolean;
  status: VerdictStatus;
  /** The answer found in the completion, or null. */
  extracted: string | null;
  /** It was found in thinking that never closed, where only the paper's protocol looks. */
  fromOpenThinking?: boolean;
}
