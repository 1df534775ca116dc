/** A judge from a user's file, in its own thread. */
import { ANY_REFERENCE, type Judge, type JudgedCompletion } from '../../judges';
import type { Problem, Verdict } from '../../base/types';
import { openModuleThread, type ThreadSetup } from './module-thread';

export interface JudgeSetup extends ThreadSetup {
  params: Readonly<Record<string, unknown>>;
}

export interface ToJudge {
  completion: JudgedCompletion;
  problem: Problem;
}

/**
 * The judge in `setup.path`, whose default export is a `JudgeFunction`.
 * @param timeoutMs for each call
 * @throws BAD_CONFIG when it cannot be loaded
 */
export async function openJudgeModule(
  setup: JudgeSetup,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<Judge> {
  const options = { timeoutMs, signal };
  const { thread } = await openModuleThread<ToJudge>('judge', 'judge-worker.js', setup, options);
  return {
    name: setup.name,
    ...ANY_REFERENCE,
    keepsTime: true,
    verdict({ text, thinkOpened, thinkingTokens, thinkingClosed }, problem) {
      const completion = { text, thinkOpened, thinkingTokens, thinkingClosed };
      return thread.call({ completion, problem }) as Promise<Verdict>;
    },
    close: () => thread.close('judge'),
  };
}
