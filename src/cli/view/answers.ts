/** The answer to one problem before and after training, as an illustration of the figures. */
import type { TrainEvent } from '../../train';
import { printable } from '../../base/printable';
import { wrapHard } from './text';

export type Answer = Extract<TrainEvent, { type: 'answer' }>;

/** Maximum lines shown of an answer; a longer one is cut in the middle. */
const SHOWN_LINES = 12;
const INDENT = '    ';

function answerLines(text: string, width: number): string[] {
  const lines = printable(text)
    .trim()
    .split('\n')
    .flatMap((line) => wrapHard(line, width - INDENT.length));
  const half = SHOWN_LINES / 2;
  const left = lines.length - 2 * half;
  const shown = left <= 1 ? lines : [...lines.slice(0, half), `... ${left} lines ...`, ...lines.slice(-half)];
  return shown.map((line) => `${INDENT}${line}`.trimEnd());
}

const heading = (when: string, { correct, thinkingTokens }: Answer) =>
  `  ${when}: ${correct ? 'correct' : 'wrong'}, ${thinkingTokens} thinking tokens`;

/** Empty unless both answers are known. */
export function answersLines(base: Answer | null, trained: Answer | null, width: number): string[] {
  if (base === null || trained === null) return [];
  const [question, ...more] = wrapHard(printable(base.question).trim().replaceAll(/\s+/g, ' '), width - 2);
  return [
    'The first problem of the evaluation, greedy:',
    ...[question!, ...more].map((line) => `  ${line}`),
    heading('before', base),
    ...answerLines(base.text, width),
    heading('after', trained),
    ...answerLines(trained.text, width),
  ];
}
