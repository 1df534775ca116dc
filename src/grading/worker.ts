/** A process that gives verdicts: its own because a runaway verdict can take the whole process with it. */
import { optionsFromConfig, verifyAnswer, verifyCompletion } from '../verify';

/** Presets of `verifyCompletion`. */
const ANSWER_FROM = { boxed: 'answer', 'last-box': 'last-box' } as const;
import type { Batch, BatchResult } from './pool';

process.on('message', ({ id, items }: Batch) => {
  const verdicts = items.map(({ gold, pred, config, preset, grading }) =>
    preset === 'boxed' || preset === 'last-box'
      ? verifyCompletion(pred, gold, ANSWER_FROM[preset], grading)
      : verifyAnswer(gold, pred, { ...optionsFromConfig(config, preset), ...grading }),
  );
  const result: BatchResult = { id, verdicts };
  process.send!(result);
});
// The parent is gone: nobody waits for a verdict.
process.on('disconnect', () => process.exit(0));
process.send!('ready');
