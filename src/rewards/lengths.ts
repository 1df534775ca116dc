/** The length of a completion as rewards see it. */
import { z } from 'zod';
import type { Rollout } from '../types';

/** `thinking`: tokens between `<think>` and `</think>`; `total`: all tokens of the completion. */
export type LengthOf = 'thinking' | 'total';

/** Characters are divided by this, so that budgets and targets stay in tokens (the authors' code has budgets x 4). */
const CHARACTERS_PER_TOKEN = 4;

export function lengthShape(lengthOf: LengthOf) {
  return {
    lengthOf: z.enum(['thinking', 'total']).default(lengthOf),
    lengthUnit: z.enum(['tokens', 'chars']).default('tokens'),
  };
}

export function lengthMeasure(parameters: {
  lengthOf: LengthOf;
  lengthUnit: 'tokens' | 'chars';
}): (rollout: Rollout) => number {
  const thinking = parameters.lengthOf === 'thinking';
  if (parameters.lengthUnit === 'tokens') {
    return (rollout) => (thinking ? rollout.thinkingTokens : rollout.totalTokens);
  }
  return (rollout) => characters(thinking ? thinkingText(rollout) : rollout.text) / CHARACTERS_PER_TOKEN;
}

/** Code points, as other languages count them. */
function characters(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** As on token ids: from the first `<think>` (or the start) to the next `</think>`, else to the end. */
function thinkingText({ text, prompt }: Rollout): string {
  const open = text.indexOf('<think>');
  if (!prompt.thinkOpened && open < 0) return text;
  const start = prompt.thinkOpened ? 0 : open + '<think>'.length;
  const close = text.indexOf('</think>', start);
  return text.slice(start, close < 0 ? text.length : close);
}
