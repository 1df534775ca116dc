/** What the monitor knows about a run besides its metrics. */

export interface MonitorContext {
  /** Number of prompts in a generated batch whose references can be parsed. */
  groupsPerBatch: number;
  /** Number of consecutive metrics lines about the same batch, one per update. */
  updatesPerBatch: number;
  /** The base model's evaluation, of the kind below if given; null: the first batches stand for it. */
  base: { accuracy: number; thinkingTokens: number } | null;
  /** Evaluations between the steps, which decide about a collapse; null if there are none. */
  evaluations: { kind: 'greedy' | 'sampled'; problems: number } | null;
}

/** The context of a metrics file about which only the batch size is known. */
export const bareContext = (groupsPerBatch: number): MonitorContext => ({
  groupsPerBatch,
  updatesPerBatch: 1,
  base: null,
  evaluations: null,
});
