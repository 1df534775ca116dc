// What the examples of tasks share. The embedded model has no words for these tasks, so without a model of
// yours its completions are replaced by written ones: they pass through judge, reward and update like any
// others, but nothing is learned.

/** A sampler for `train`: sample i of a prompt says `texts[i]`. */
const scripted =
  (texts) =>
  ({ engineSampler }) => ({
    follow: (version) => engineSampler.follow(version),
    sample: (prompts, settings, onCompletion) =>
      engineSampler.sample(prompts, settings, (completion) =>
        onCompletion({
          ...completion,
          scripted: true,
          text: texts[completion.sample % texts.length],
          thinkingClosed: true,
          finish: 'stop',
        }),
      ),
  });

/** A sink that prints each completion of a step with its verdict and reward. */
const printed = {
  completions(step, rows) {
    for (const { rollout, reward } of rows) {
      const { correct, status } = rollout.verdict;
      const text = JSON.stringify(rollout.text.slice(-60));
      console.log(`${correct ? 'right' : status}  ${reward.total.toFixed(2)}  ${text}`);
    }
  },
};

/**
 * What `train` takes besides the task: `node EXAMPLE.mjs MODEL` trains MODEL; without one, one step on written
 * completions.
 */
export function setting(texts) {
  const [, , model] = process.argv;
  const common = { formatWeight: 0, evalProblems: 0, evalSampledProblems: 0, completionsSteps: 1 };
  if (model !== undefined) return { settings: { model, ...common }, options: { sinks: [printed] } };
  const script = { numGenerations: texts.length, promptsPerStep: 1, maxSteps: 1 };
  return {
    settings: { model: 'tiny', ...script, ...common },
    options: { sinks: [printed], sampler: scripted(texts) },
  };
}
