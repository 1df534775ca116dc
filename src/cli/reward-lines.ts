/** Checks the input lines of `acoer reward` and groups their completions. */
import type { RecordedCompletion } from '../lab';
import { makeRollout, namedPrompt } from '../lab/rollouts';
import type { Group, Prompt, Rollout } from '../base/types';
import { badLine } from '../base/json-lines';
import { objectOf, type JsonLine } from './jsonl';
import { shownJson } from '../base/json';

/** A checked line; `given` is the object as read, which is written again together with the results. */
export interface RewardLine extends RecordedCompletion {
  given: Record<string, unknown>;
  /** Key for rewards that remember prompts. */
  problemId: string;
  text: string;
}

type Fields = Record<string, unknown>;

const shown = (value: unknown) => (value === undefined ? 'missing' : shownJson(value));

function wholeNumber(line: number, fields: Fields, name: string): number {
  const value = fields[name];
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw badLine(line, `"${name}" is ${shown(value)}; it must be a whole number of at least 0.`);
}

function truth(line: number, fields: Fields, name: string, missing?: boolean): boolean {
  const value = fields[name] ?? missing;
  if (value === true || value === 1) return true;
  if (value === false || value === 0) return false;
  throw badLine(line, `"${name}" is ${shown(value)}; it must be true or false.`);
}

/** A name, which may be text or a number. Kept as JSON, so that 1 and "1" differ. */
function label(line: number, fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value === 'string' || Number.isFinite(value)) return JSON.stringify(value);
  throw badLine(line, `"${name}" is ${shown(value)}; it must be a number or a string.`);
}

function textOf(line: number, fields: Fields, needed: boolean): string {
  if (typeof fields.text === 'string') return fields.text;
  if (fields.text === undefined && !needed) return '';
  throw badLine(
    line,
    `"text" is ${shown(fields.text)}; it must be the completion, because lengths are counted in characters.`,
  );
}

/**
 * Makes the check for one line; lines must be ordered by step.
 * @param needsText lengths are counted in characters, so every line must have its "text"
 */
export function rewardReader(needsText: boolean): (line: JsonLine) => RewardLine {
  let lastStep = 0;
  return (read) => {
    const { line } = read;
    const given = objectOf(read);
    const step = wholeNumber(line, given, 'step');
    if (step < lastStep) {
      throw badLine(line, `step ${step} comes after step ${lastStep}; lines must be ordered by step.`);
    }
    lastStep = step;
    const group = label(line, given, 'group');
    return {
      given,
      step,
      group,
      problemId: given.problem === undefined ? group : label(line, given, 'problem'),
      correct: truth(line, given, 'correct'),
      thinkingTokens: wholeNumber(line, given, 'thinkingTokens'),
      totalTokens: wholeNumber(line, given, 'totalTokens'),
      format: truth(line, given, 'format'),
      thinkingClosed: truth(line, given, 'thinkingClosed', true),
      text: textOf(line, given, needsText),
    };
  };
}

function rolloutOf(line: RewardLine, prompt: Prompt, sample: number, maxLength: number): Rollout {
  const { correct, thinkingTokens, totalTokens, format, thinkingClosed, text } = line;
  const finish = totalTokens >= maxLength ? 'length' : 'stop';
  const plain = makeRollout(prompt, sample, correct, thinkingTokens, totalTokens);
  return { ...plain, finish, text, thinkingClosed, format };
}

/** The groups of one step's lines and each line's rollout; `maxLength` tokens count as truncated. */
export function groupLines(
  lines: readonly RewardLine[],
  maxLength: number,
): { groups: Group[]; rollouts: Rollout[] } {
  const groups = new Map<string, Group>();
  const rollouts = lines.map((line) => {
    const group = groups.get(line.group) ?? {
      prompt: namedPrompt(line.problemId, groups.size),
      rollouts: [],
    };
    groups.set(line.group, group);
    const rollout = rolloutOf(line, group.prompt, group.rollouts.length, maxLength);
    group.rollouts.push(rollout);
    return rollout;
  });
  return { groups: [...groups.values()], rollouts };
}
