/** Answers to the same problems before and after training, side by side, with what was cut marked. */
import type * as DiffModule from 'diff' with { 'resolution-mode': 'import' };
import { optionalPackage } from '../base/optional-package';
import type { StoredCompletion } from '../run';
import { opensThinking, partsOf, questionOf } from '../base/transcript';
import type { BeforeAfter } from './evaluations';
import { cutMiddle } from './completions';
import { markup, type Html } from './html';

export interface AnswerPair {
  before: StoredCompletion;
  after: StoredCompletion;
  /** Why it is shown. */
  why: string;
}

const saved = ({ before, after }: Omit<AnswerPair, 'why'>) => before.thinkingTokens - after.thinkingTokens;

/**
 * A fair choice: the median, the largest and the smallest cut among problems solved both times, and a problem
 * newly solved and one newly lost, where there are any.
 */
export function chosenPairs({ answers }: BeforeAfter): AnswerPair[] {
  if (answers === null) return [];
  const later = new Map(answers.trained.map((row) => [row.promptIndex, row]));
  const pairs = answers.base.flatMap((before) => {
    const after = later.get(before.promptIndex);
    return after === undefined ? [] : [{ before, after }];
  });
  const of = (was: boolean, is: boolean) =>
    pairs
      .filter(({ before, after }) => before.correct === was && after.correct === is)
      .sort((a, b) => saved(b) - saved(a));
  const [both, gained, lost] = [of(true, true), of(false, true), of(true, false)];
  const middle = (list: typeof pairs) => list[Math.floor((list.length - 1) / 2)];
  const wanted: [(typeof pairs)[number] | undefined, string][] = [
    [middle(both), 'the median cut among problems solved both times'],
    [both[0], 'the largest cut among problems solved both times'],
    [both.at(-1), 'the smallest cut among problems solved both times'],
    [middle(gained), `one of ${gained.length} problems solved only after training`],
    [middle(lost), `one of ${lost.length} problems solved only before training`],
  ];
  const shown = wanted.filter((one): one is [(typeof pairs)[number], string] => one[0] !== undefined);
  const fresh = shown.filter(([pair], i) => shown.findIndex(([other]) => other === pair) === i);
  return fresh.map(([pair, why]) => ({ ...pair, why }));
}

/** Characters of an answer in the page. */
const LONGEST_TEXT = 12_000;
/** Beyond this many differing lines the texts count as wholly different. */
const MOST_EDITS = 2_000;

/** Thinking without its tags, and everything after it. */
function textsOf({ prompt, completion }: StoredCompletion): { thinking: string; answer: string } {
  const { before, thinking, answer } = partsOf(completion, opensThinking(prompt));
  return { thinking: (thinking ?? '').replaceAll(/^<think>|<\/think>$/g, ''), answer: before + answer };
}

const linesOf = (text: string): string[] => text.trim().split('\n');

type Diff = typeof DiffModule;

/** The lines of the longer text, those that the shorter one does not have marked as cut. */
function markedLines({ diffArrays }: Diff, before: string, after: string): { text: string; cut: boolean }[] {
  const [a, b] = [linesOf(before), linesOf(after)];
  const parts = diffArrays(a, b, { maxEditLength: MOST_EDITS });
  // Too different to be aligned: all of it is other text.
  if (parts === undefined) return a.map((text) => ({ text, cut: true }));
  return parts.flatMap(({ value, removed, added }) =>
    added ? [] : value.map((text) => ({ text, cut: removed })),
  );
}

function answerColumn(title: string, row: StoredCompletion, thinking: Html, widest: number): Html {
  const { answer } = textsOf(row);
  const verdict = row.correct
    ? markup`<span class="good">correct</span>`
    : markup`<span class="bad">wrong</span>`;
  const width = Math.max(1, Math.round((100 * row.thinkingTokens) / Math.max(1, widest)));
  return markup`<div>
    <h3>${title}: ${verdict}, ${row.thinkingTokens.toLocaleString('en-US')} thinking tokens</h3>
    <div class="bar" aria-hidden="true"><span style="width:${width}%"></span></div>
    <div class="thinking-text">${thinking}</div>
    <div class="answer-text math">${cutMiddle(answer.trim(), LONGEST_TEXT)}</div>
  </div>`;
}

const markedHtml = (lines: readonly { text: string; cut: boolean }[]): Html[] =>
  lines.map(({ text, cut }) => (cut ? markup`<del>${text}</del>\n` : markup`<span>${text}</span>\n`));

function pairHtml(diff: Diff, { before, after, why }: AnswerPair, template: string, open: boolean): Html {
  const [was, is] = [textsOf(before).thinking, textsOf(after).thinking];
  const widest = Math.max(before.thinkingTokens, after.thinkingTokens);
  const cut = markedHtml(markedLines(diff, cutMiddle(was, LONGEST_TEXT), cutMiddle(is, LONGEST_TEXT)));
  const change = Math.round(100 * (after.thinkingTokens / Math.max(1, before.thinkingTokens) - 1));
  const level = before.level === null ? '' : `, level ${before.level}`;
  return markup`<details class="pair" ${open ? markup` open` : null}>
    <summary>
      Problem ${before.problemId}${level}: thinking ${before.thinkingTokens} → ${after.thinkingTokens} tokens
      (${change > 0 ? '+' : ''}${change}%) <span class="muted">${why}</span>
    </summary>
    <p class="problem math">${cutMiddle(questionOf(before.prompt, template), 4000)}</p>
    <p class="muted">Reference: <span class="math">${before.gold}</span></p>
    <div class="columns">
      ${answerColumn('Before', before, markup`${cut}`, widest)}
      ${answerColumn('After', after, markup`${cutMiddle(is.trim(), LONGEST_TEXT)}`, widest)}
    </div>
  </details>`;
}

/**
 * Problems with both answers, the first one open.
 *
 * @param template the run's `promptTemplate`
 * @throws MISSING_PACKAGE
 */
export async function pairsHtml(pairs: readonly AnswerPair[], template: string): Promise<Html[]> {
  const diff = await optionalPackage('acoer report', 'diff', () => import('diff'));
  return pairs.map((pair, i) => pairHtml(diff, pair, template, i === 0));
}
