/** What the monitor is told of a run besides its metrics. */

export interface MonitorContext {
  /** Prompts of a generated batch whose references can be read. */
  groupsPerBatch: number;
  /** Lines of metrics in a row that tell of the same batch: the updates made from it. */
  updatesPerBatch: number;
  /** The base model's evaluation, of the kind below if there is one; null: the first batches stand for it. */
  base: { accuracy: number; thinkingTokens: number } | null;
  /** Evaluations between the steps, which decide what a collapse is; null: there are none. */
  evaluations: { kind: 'greedy' | 'sampled'; problems: number } | null;
}

/** Of a file of metrics about which nothing is known but the size of a batch. */
export const bareContext = (groupsPerBatch: number): MonitorContext => ({
  groupsPerBatch,
  updatesPerBatch: 1,
  base: null,
  evaluations: null,
});
