/** Rollouts with only the fields that rewards use. */
import type { Group, Prompt, Rollout } from '../../src/base/types';

export const prompt: Prompt = {
  problem: { id: '0', question: 'q', gold: '1', level: null },
  index: 0,
  text: 'q',
  ids: Int32Array.of(1),
  thinkOpened: false,
};

export function rollout(correct: boolean, thinkingTokens: number, thinkingClosed = true): Rollout {
  return {
    prompt,
    sample: 0,
    ids: new Int32Array(),
    logprobs: new Float64Array(),
    entropies: new Float64Array(),
    finish: thinkingClosed ? 'stop' : 'length',
    text: '',
    totalTokens: thinkingTokens + 3,
    thinkingTokens,
    thinkingClosed,
    verdict: { correct, status: correct ? 'correct' : 'incorrect', extracted: null },
    format: thinkingClosed,
  };
}

export const group = (...rollouts: Rollout[]): Group => ({ prompt, rollouts });

/** A completion as the golden batches describe it. */
export interface Described {
  correct: boolean;
  thinking: number;
  total: number;
  closed: boolean;
  format: boolean;
}

/** A group with its own prompt; completions are cut off at `longest`. */
export function describedGroup(problem: string, completions: readonly Described[], longest: number): Group {
  const own: Prompt = { ...prompt, problem: { ...prompt.problem, id: problem } };
  const rollouts = completions.map(({ correct, thinking, total, closed, format }, sample) => ({
    ...rollout(correct, thinking, closed),
    prompt: own,
    sample,
    totalTokens: total,
    format,
    finish: total >= longest ? ('length' as const) : ('stop' as const),
  }));
  return { prompt: own, rollouts };
}
