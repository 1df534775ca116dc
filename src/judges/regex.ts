/** A regular expression on the answer. */
import { z } from 'zod';
import { compilePattern, patternProblem } from '../config/pattern';
import { verifyCompletion } from '#verify/verify';
import { answerText } from './answer';
import { UNANSWERED, verdictOf, type JudgeDefinition } from './types';

const PARAMETERS = z.strictObject({
  pattern: z
    .string('a regular expression')
    .min(1)
    .superRefine((pattern, context) => {
      const message = patternProblem(pattern);
      if (message !== null) context.addIssue({ code: 'custom', message });
    }),
  ignoreCase: z.boolean().default(false),
  compare: z.enum(['exact', 'math']).default('exact'),
});

function lastMatch(pattern: RegExp, text: string): RegExpExecArray | null {
  let last: RegExpExecArray | null = null;
  for (const match of text.matchAll(pattern)) last = match;
  return last;
}

export const regex: JudgeDefinition<typeof PARAMETERS> = {
  name: 'regex',
  summary:
    'the last match of `pattern` after the thinking. Its first group must equal the reference, as text or (`compare: math`) as mathematics; without a group or a reference, a match is enough',
  parameters: PARAMETERS,
  judge({ pattern, ignoreCase, compare }) {
    const compiled = compilePattern(pattern, ignoreCase ? 'gi' : 'g');
    const key = (text: string) => (ignoreCase ? text.trim().toLowerCase() : text.trim());
    return {
      needsGold: false,
      readsGold: () => true,
      verdict(completion, { gold, grading }) {
        const text = answerText(completion);
        const match = text === null ? null : lastMatch(compiled, text);
        if (match === null) return UNANSWERED;
        const group = match[1];
        if (gold === null || match.length === 1) return verdictOf(true, (group ?? match[0]).trim());
        if (group === undefined) return UNANSWERED;
        if (compare === 'exact') return verdictOf(key(group) === key(gold), group.trim());
        return { ...verifyCompletion(`\\boxed{${group}}`, gold, 'answer', grading), extracted: group.trim() };
      },
    };
  },
};
