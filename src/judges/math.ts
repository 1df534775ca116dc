/** The verifier: mathematics in a `\boxed{}`. */
import { z } from 'zod';
import { verifyCompletion, type AnswerRule } from '#verify/verify';
import type { Judge, JudgeDefinition } from './types';

/** @param answerFrom where the answer is looked for */
export const mathJudge = (answerFrom: AnswerRule = 'answer'): Judge => ({
  name: 'math',
  needsGold: true,
  readsGold: (gold) => verifyCompletion('', gold).status !== 'gold-unparseable',
  verdict: ({ text, thinkOpened }, { gold, grading }) =>
    verifyCompletion(text, gold ?? '', answerFrom, { ...grading, thinkOpened }),
});

export const math: JudgeDefinition = {
  name: 'math',
  summary: 'the verifier: the `\\boxed{}` after the thinking equals the reference as mathematics',
  parameters: z.strictObject({}),
  judge: () => mathJudge(),
};
