/** The closest controller before ACOER. */
import { defineReward, nonNegative, sumOf } from './define';
import { accuracyOf, correctness, rolloutsOf } from './groups';

interface State {
  lambda: number;
}

export const aDlp = defineReward({
  name: 'a-dlp',
  summary:
    'A penalty per token that grows while accuracy is above a reference and shrinks while it is below (A-DLP).',
  formula: 'c - lambda_t * l; lambda <- max(0, lambda + eta * (acc - accRef))',
  source: 'arXiv 2505.18298',
  taxonomy: { scope: 'history', correct: 'shorter', incorrect: 'shorter', bounded: false, adaptive: true },
  length: 'total',
  parameters: {
    lambdaInit: nonNegative().default(1e-3),
    eta: nonNegative().default(1e-3),
    accRef: nonNegative().max(1).default(0.62),
  },
  reward: ({ lambdaInit, eta, accRef }, { l }) => ({
    initialState: (): State => ({ lambda: lambdaInit }),
    observe: (state: State, { batch }): State =>
      batch.length === 0
        ? state
        : { lambda: Math.max(0, state.lambda + eta * (accuracyOf(rolloutsOf(batch)) - accRef)) },
    score: (rollout, { state }) => sumOf(correctness(rollout), -state.lambda * l(rollout)),
    metrics: ({ lambda }) => ({ 'a-dlp/lambda': lambda }),
    snapshot: ({ lambda }) => ({ lambda }),
  }),
});
