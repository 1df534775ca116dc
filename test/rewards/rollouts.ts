/** Rollouts with only what a reward looks at. */
import type { Group, Prompt, Rollout } from '../../src/types';

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
