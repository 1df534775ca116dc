/** Runs on the fake engine that are opened as `train` opens them, for tests of the loop itself. */
import type { ConfigInput } from '../../src/config';
import type { LoopContext } from '../../src/grpo/context';
import { NO_WATCH } from '../../src/grpo/watch';
import { openNew } from '../../src/life/opening';
import type { Watchdog } from '../../src/life/watchdog';
import { openModel } from '../../src/train/opened';
import { GRPO } from '../../src/train/opening';
import { startState } from '../../src/train/state';
import { fakeRun } from './fake-run';

/** Nobody watches the run. The caller removes `out`. */
export async function openFake(settings: ConfigInput, options: Parameters<typeof openModel>[2]) {
  const { out, tokenizer, trainData, evalData } = fakeRun();
  const opening = await openNew(GRPO, out, {
    settings: { maxCompletionLength: 40, learningRate: 100, evalProblems: 0, ...settings },
    parts: { tokenizer, trainData, evalData },
    fetching: {},
    acceptChanged: [],
    trust: false,
    ranks: 1,
  });
  const watchdog = { ...NO_WATCH, loaded: () => undefined } as unknown as Watchdog;
  const { loop } = await openModel(opening, watchdog, options);
  return { out, loop, start: (changed: LoopContext) => startState(opening, changed) };
}
