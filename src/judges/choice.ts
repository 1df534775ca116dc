/** Multiple choice: the letter of an option. */
import { z } from 'zod';
import { answerText, markedAnswer } from './answer';
import { NO_REFERENCE, UNANSWERED, verdictOf, type JudgeDefinition } from './types';

const PARAMETERS = z.strictObject({
  letters: z
    .string()
    .regex(/^[A-Z]{2,26}$/, 'two or more capital letters, such as ABCD')
    .default('ABCDEFGHIJ'),
});

/** `**`, `$` and `\text{B}` around a letter. */
const plain = (text: string): string =>
  text
    .replace(/\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}/g, '$1')
    .replace(/[*$]/g, '')
    .trim();

/** Text after the letter that is looked at; what follows cannot change which letter it is. */
const LINE = 2_000;

interface Patterns {
  /** A letter alone, or with its option: `B`, `(B)`, `B. Paris`, `(B) Paris`. */
  option: RegExp;
  /** A letter alone. */
  alone: RegExp;
  /** `The answer is (B)`, `Answer: B`. */
  stated: RegExp;
}

function patternsOf(letters: string): Patterns {
  const one = `([${letters}])`;
  return {
    option: new RegExp(`^(?:${one}(?:[.:)]|$)|\\(${one}\\))`),
    alone: new RegExp(`^\\(?${one}\\)?[.:]?$`),
    // `the answer is A good one` states no letter.
    stated: new RegExp(
      `\\b(?:[Aa]nswer(?:\\s{1,4}is)?|(?:[Oo]ption|[Cc]hoice)\\s{1,4}is)\\s{0,4}:?\\s{0,4}(?:\\(${one}\\)|${one}(?![\\w']|\\s+[a-z]))`,
      'g',
    ),
  };
}

const lettersOf = (match: RegExpMatchArray | null): string | null => match?.[1] ?? match?.[2] ?? null;

function letterIn(text: string, { option, alone, stated }: Patterns): string | null {
  const marked = markedAnswer(text);
  if (marked !== null) return lettersOf(option.exec(plain(marked.slice(0, LINE))));
  const answer = plain(text);
  const last = [...answer.matchAll(stated)].at(-1) ?? null;
  if (last !== null) return lettersOf(last);
  const lines = answer.split('\n');
  const end = lettersOf(alone.exec(lines.at(-1)!.trim().slice(0, LINE)));
  return end ?? (lines.length === 1 ? lettersOf(option.exec(answer.slice(0, LINE))) : null);
}

export const choice: JudgeDefinition<typeof PARAMETERS> = {
  name: 'choice',
  summary:
    'multiple choice: the letter in the last `\\boxed{}` or `<answer>`, else the last "answer is B", else a letter alone',
  parameters: PARAMETERS,
  judge({ letters }) {
    const patterns = patternsOf(letters);
    const reference = (gold: string) => {
      const text = plain(gold.slice(0, LINE));
      return lettersOf(patterns.option.exec(/^[a-z]$/.test(text) ? text.toUpperCase() : text));
    };
    return {
      needsGold: true,
      readsGold: (gold) => reference(gold) !== null,
      verdict(completion, { gold }) {
        const wanted = gold === null ? null : reference(gold);
        if (wanted === null) return NO_REFERENCE;
        const text = answerText(completion);
        const letter = text === null ? null : letterIn(text, patterns);
        return letter === null ? UNANSWERED : verdictOf(letter === wanted, letter);
      },
    };
  },
};
