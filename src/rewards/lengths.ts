/** The length of a completion as rewards measure it. */
import { z } from 'zod';
import type { Rollout } from '../base/types';

/** Tokens in all `<think>` blocks, in the first one only, or all tokens of the completion. */
export type LengthOf = 'thinking' | 'first-block' | 'total';

/** Characters are divided by this, so budgets stay in tokens (the authors' code multiplies budgets by 4). */
const CHARACTERS_PER_TOKEN = 4;

export function lengthShape(lengthOf: LengthOf) {
  return {
    lengthOf: z.enum(['thinking', 'first-block', 'total']).default(lengthOf),
    lengthUnit: z.enum(['tokens', 'chars']).default('tokens'),
  };
}

type Measure = (rollout: Rollout) => number;

const TOKENS: Readonly<Record<LengthOf, Measure>> = {
  // A recorded line may have only one block.
  thinking: (rollout) => rollout.thinkingTokens + (rollout.laterThinkingTokens ?? 0),
  'first-block': (rollout) => rollout.thinkingTokens,
  total: (rollout) => rollout.totalTokens,
};

const TEXT: Readonly<Record<LengthOf, (rollout: Rollout) => string>> = {
  thinking: (rollout) => thinkingTexts(rollout).join(''),
  'first-block': (rollout) => thinkingTexts(rollout)[0]!,
  total: (rollout) => rollout.text,
};

export function lengthMeasure({
  lengthOf,
  lengthUnit,
}: {
  lengthOf: LengthOf;
  lengthUnit: 'tokens' | 'chars';
}): Measure {
  if (lengthUnit === 'tokens') return TOKENS[lengthOf];
  return (rollout) => characters(TEXT[lengthOf](rollout)) / CHARACTERS_PER_TOKEN;
}

/** Code points, as other languages count them. */
function characters(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** The blocks, as counted on ids: from `<think>` (or the start) to `</think>` or the end. At least one. */
function thinkingTexts({ text, prompt }: Rollout): string[] {
  const whole = prompt.thinkOpened ? `<think>${text}` : text;
  const blocks = [...whole.matchAll(/<think>([^]*?)(?:<\/think>|$)/g)].map(([, block]) => block!);
  return blocks.length > 0 ? blocks : [text];
}
