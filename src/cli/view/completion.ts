/** One completion to read: verdict, lengths and reward on a line, then thinking and answer. */
import type { CompletionRow, StoredCompletion, StoredReward } from '../../run';
import { grouped } from '../../base/text';
import { opensThinking, partsOf } from '../../base/transcript';
import type { ColumnValue, Problem } from '../../base/types';
import { printable, printableLine } from '../../base/printable';
import type { Colors } from './colors';
import { cutMiddle, type Keep } from './cut';
import { wrapFields, wrapHard } from './text';

/** The problem a completion belongs to. */
export type ShownProblem = Pick<Problem, 'id' | 'level' | 'gold' | 'question'>;

type Judged = 'status' | 'extracted' | 'scored' | 'columns';
type Measured = 'sample' | 'thinkingTokens' | 'thinkingClosed' | 'totalTokens' | 'finish';

export interface ShownCompletion extends Pick<StoredCompletion, Judged | Measured> {
  text: string;
  /** The prompt ended inside `<think>`. */
  thinkOpened: boolean;
}

export interface CompletionStyle {
  colors: Colors;
  /** Columns to wrap at; Infinity: not at all. */
  width: number;
  /** How much to keep of the thinking; null: all. */
  thinking: Keep | null;
  /** How much to keep of the answer; null: all. */
  answer: Keep | null;
}

const INDENT = '    ';

export const shownStored = (row: StoredCompletion): ShownCompletion => ({
  ...row,
  text: row.completion,
  thinkOpened: opensThinking(row.prompt),
});

export function shownSample({ rollout, reward, advantage }: CompletionRow): ShownCompletion {
  const { verdict, prompt } = rollout;
  const { status, extracted } = verdict;
  const { columns, ...sum } = reward;
  const scored = { ...sum, advantage };
  const noted = columns && { columns };
  return { ...rollout, status, extracted, thinkOpened: prompt.thinkOpened, scored, ...noted };
}

function verdictText({ status, extracted }: ShownCompletion): string {
  switch (status) {
    case 'correct':
      return 'correct';
    case 'incorrect':
      return extracted === null ? 'wrong' : `wrong, answered ${printableLine(extracted, 60)}`;
    case 'unparseable':
      return 'wrong, no answer that can be read';
    case 'timeout':
      return 'wrong, the comparison took too long';
    case 'gold-unparseable':
      return 'not judged, the reference cannot be read';
  }
}

const signed = (value: number) => `${value > 0 ? '+' : ''}${value.toFixed(3)}`;

function rewardText({ total, parts, advantage }: StoredReward): string[] {
  const named = Object.entries(parts).map(([name, value]) => `${name} ${value.toFixed(3)}`);
  const sum = named.length > 1 ? ` = ${named.join(' + ')}` : '';
  return [`reward ${total.toFixed(3)}${sum}`, `advantage ${signed(advantage)}`];
}

/** Of what a reward noted, more characters than this are not read beside a completion. */
const LONGEST_NOTE = 80;

const noteText = ([name, value]: [string, ColumnValue]): string =>
  `${printableLine(name)} ${printableLine(typeof value === 'number' ? String(Number(value.toPrecision(6))) : String(value), LONGEST_NOTE)}`;

function headline(completion: ShownCompletion): string[] {
  const { sample, thinkingTokens, thinkingClosed, totalTokens, finish, scored, columns = {} } = completion;
  return [
    `sample ${sample}`,
    `${grouped(thinkingTokens)} of ${grouped(totalTokens)} tokens are thinking`,
    ...(thinkingClosed ? [] : ['thinking not closed']),
    ...(finish === 'length' ? ['cut off at the maximum length'] : []),
    ...(scored === undefined ? [] : rewardText(scored)),
    ...Object.entries(columns)
      .filter(([, value]) => value !== null)
      .map(noteText),
  ];
}

const indented = (text: string, width: number): string[] =>
  text
    .split('\n')
    .flatMap((line) => wrapHard(line, width - INDENT.length))
    .map((line) => (line === '' ? '' : INDENT + line));

/** @param tokens of `text`, for the note on what is left out; null: unknown, so it counts characters */
function body(text: string, tokens: number | null, keep: Keep | null, width: number): string[] {
  const trimmed = printable(text).replace(/^\n+/, '').trimEnd();
  if (trimmed === '') return [];
  const cut = keep === null ? null : cutMiddle(trimmed, keep);
  if (cut === null) return indented(trimmed, width);
  const leftOut =
    tokens === null
      ? `${grouped(cut.leftOut)} characters`
      : `about ${grouped(Math.round((tokens * cut.leftOut) / trimmed.length))} tokens`;
  return [...indented(cut.head, width), `${INDENT}... ${leftOut} cut ...`, ...indented(cut.tail, width)];
}

/** The completion in lines, indented below its problem. */
export function completionLines(completion: ShownCompletion, style: CompletionStyle): string[] {
  const { colors, width, thinking: keepThinking, answer: keepAnswer } = style;
  const { before, thinking, answer } = partsOf(completion.text, completion.thinkOpened);
  const verdict = verdictText(completion);
  const paint = completion.status === 'correct' ? colors.green : colors.red;
  const [first, ...more] = wrapFields([verdict, ...headline(completion)], width - 2, INDENT);
  const head = first!.startsWith(verdict) ? paint(verdict) + first!.slice(verdict.length) : first!;
  return [
    `  ${head}`,
    ...more.map((line) => `  ${line}`),
    ...body(before, null, keepAnswer, width),
    ...body(thinking ?? '', completion.thinkingTokens, keepThinking, width).map((line) => colors.dim(line)),
    ...body(answer, null, keepAnswer, width),
  ];
}

/** Id, level and reference, then the question. */
export function problemLines(
  { id, level, gold, question }: ShownProblem,
  width: number,
  keep: Keep | null,
): string[] {
  const marks = [
    `problem ${printableLine(id, 200)}`,
    ...(level === null ? [] : [`level ${printableLine(level, 60)}`]),
    `reference ${gold === null ? 'none' : printableLine(gold, 200)}`,
  ];
  return [...wrapFields(marks, width, INDENT), ...body(question, null, keep, width)];
}
