/** When an export counts as another model. */
import { type Proof, proofProblem } from '../../src/export/proof';

const EXACT: Proof = { prompts: 32, sameAnswers: 32, tokens: 4_096, meanLogprobError: 0, maxLogprobError: 0, kl: 0 }; // prettier-ignore

test.each<[Partial<Proof>, string | null]>([
  [{}, null],
  [{ sameAnswers: 31, kl: 1e-3 }, null],
  [{ sameAnswers: 30 }, "2 of 32 greedy answers are not the run's"],
  [{ prompts: 8, sameAnswers: 7 }, null],
  [{ prompts: 8, sameAnswers: 6 }, "2 of 8 greedy answers are not the run's"],
  [{ kl: 2e-3 }, "its distribution is 2.0e-3 nats per token from the run's; at most 0.001 is wanted"],
])('%j: %s', (facts, problem) => {
  expect(proofProblem({ ...EXACT, ...facts })).toBe(problem);
});
