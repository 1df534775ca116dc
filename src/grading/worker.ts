/** The worker process of the pool: a runaway verdict can take its whole process down. */
import { leaveSignalsToParent } from '../base/signals';
import { verifyAnswer, verifyCompletion } from '#verify';
import { optionsFromConfig } from './config';
import type { Batch, BatchResult } from './pool';

/** Presets of `verifyCompletion`. */
const ANSWER_FROM = { boxed: 'open-thinking', 'last-box': 'last-box' } as const;

leaveSignalsToParent();
process.on('message', ({ id, items }: Batch) => {
  const verdicts = items.map(({ gold, pred, config, preset, grading, openThinking }) =>
    preset === 'boxed' || preset === 'last-box'
      ? verifyCompletion(pred, gold, ANSWER_FROM[preset], grading)
      : verifyAnswer(gold, pred, { ...optionsFromConfig(config, preset), ...grading, openThinking }),
  );
  const result: BatchResult = { id, verdicts };
  process.send!(result);
});
// The parent is gone, so nobody is waiting for a verdict.
process.on('disconnect', () => process.exit(0));
process.send!('ready');
