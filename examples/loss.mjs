// A custom loss: REINFORCE with a bounded log-ratio penalty, trained for two steps on the embedded model.
//
//   node examples/loss.mjs          (in a clone, after `npm ci`; elsewhere import from 'acoer')
import { registerLoss, sumOverTokens, train } from '../dist/index.js';

registerLoss({
  name: 'reinforce',
  summary:
    'REINFORCE: log-prob of each token times its advantage, plus a penalty for moving away from the old policy.',
  formula: '1/T sum_i sum_t -A logprob + penalty/2 log(w)^2',
  parameters: {},
  usesDelta: false,
  normalizer: ({ tokens }) => Math.max(1, tokens),
  compute(batch, settings) {
    const penalty = 0.01;
    const added = sumOverTokens(batch, settings, {
      // A rule sets the loss of one token and its derivatives; the chain rule through the ratio is applied.
      ruleOf:
        ({ advantage }) =>
        (term, ratio, logprob) => {
          const log = Math.log(ratio);
          term.loss = -advantage * logprob + (penalty / 2) * log * log;
          term.slopeLogprob = -advantage;
          term.slopeRatio = (penalty * log) / ratio;
        },
    });
    return { ...added, measures: {} };
  },
  metrics: () => ({}),
});

const run = await train(
  { model: 'tiny', lossType: 'reinforce', maxSteps: 2, evalProblems: 0, evalSampledProblems: 0 },
  { out: process.argv[2] },
);
for await (const { index, metrics } of run) {
  console.log(`step ${index}: loss ${metrics.loss.toFixed(4)}, gradient ${metrics.grad_norm.toFixed(3)}`);
}
