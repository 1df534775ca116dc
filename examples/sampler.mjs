// A custom sampler: the engine samples, and every completion is also written to a file while others decode.
// A sampler that uses a server would send it the adapter in `follow` (policy.save(path)) and the prompts in
// `sample`.
//
//   node examples/sampler.mjs          (in a clone, after `npm ci`; elsewhere import from 'acoer')
import { appendFileSync } from 'node:fs';
import { train } from '../dist/index.js';

const [, , file = 'completions.jsonl', out] = process.argv;

const settings = { model: 'tiny', maxSteps: 2, evalProblems: 0, evalSampledProblems: 0 };
const run = await train(settings, {
  out,
  sampler({ engineSampler }) {
    let policyVersion = 0;
    return {
      // Called before sampling, whenever the weights may have changed.
      async follow(version) {
        policyVersion = version;
        await engineSampler.follow(version);
      },
      sample(prompts, settings, onCompletion) {
        return engineSampler.sample(prompts, settings, (completion) => {
          const { prompt, sample, text, thinkingTokens } = completion;
          appendFileSync(
            file,
            `${JSON.stringify({ policyVersion, prompt, sample, thinkingTokens, text })}\n`,
          );
          onCompletion(completion);
        });
      },
    };
  },
});
for await (const { index, metrics } of run) {
  console.log(`step ${index}: ${metrics['thinking/mean'].toFixed(1)} thinking tokens`);
}
