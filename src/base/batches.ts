/** What is generated together, by the settings of a run. */

/** Groups that are generated, or with groups in flight trained on, together. */
export const groupsPerBatch = ({
  promptsPerStep,
  stepsPerGeneration,
}: {
  promptsPerStep: number;
  stepsPerGeneration: number;
}): number => promptsPerStep * stepsPerGeneration;

/** Updates that are made from one generated batch. */
export const updatesPerBatch = ({
  stepsPerGeneration,
  numIterations,
}: {
  stepsPerGeneration: number;
  numIterations: number;
}): number => stepsPerGeneration * numIterations;
