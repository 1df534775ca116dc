/** The same text as the reference. */
import { z } from 'zod';
import { answerText, markedAnswer } from './answer';
import { NO_REFERENCE, UNANSWERED, verdictOf, type JudgeDefinition } from './types';

const PARAMETERS = z.strictObject({ ignoreCase: z.boolean().default(false) });

export const exact: JudgeDefinition<typeof PARAMETERS> = {
  name: 'exact',
  summary:
    'the answer is the reference, character by character: the last `\\boxed{}` or `<answer>` after the thinking, or all of that text',
  parameters: PARAMETERS,
  judge({ ignoreCase }) {
    const key = (text: string) => {
      const trimmed = text.trim().normalize('NFC');
      return ignoreCase ? trimmed.toLowerCase() : trimmed;
    };
    return {
      needsGold: true,
      readsGold: (gold) => gold.trim() !== '',
      verdict(completion, { gold }) {
        if (gold === null || gold.trim() === '') return NO_REFERENCE;
        const text = answerText(completion);
        const answer = text === null ? null : (markedAnswer(text) ?? text).trim();
        return answer === null || answer === '' ? UNANSWERED : verdictOf(key(answer) === key(gold), answer);
      },
    };
  },
};
