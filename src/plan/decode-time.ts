/** Time to decode sequences of given lengths in a limited number of slots, with continuous batching. */
import { minimum } from '../base/statistics';

export interface DecodePlan {
  promptTokens: number;
  slots: number;
}

/** Completions that end between two points at which the work can be interrupted. */
const PER_TURN = 64;

/**
 * Yields between pieces of the work. Seconds by `stepSeconds`, the time of one decode step of sequences that see so many tokens. Sequences enter
 * in order as slots become free. Between two completions the same sequences decode, and that stretch is costed
 * as its number of steps times the cost of its middle step.
 */
export function* decodeSeconds(
  lengths: readonly number[],
  plan: DecodePlan,
  stepSeconds: (contextLengths: readonly number[]) => number,
): Generator<void, number> {
  const waiting = [...lengths].reverse();
  let live: { done: number; left: number }[] = [];
  let seconds = 0;
  for (let stretch = 1; ; stretch++) {
    if (stretch % PER_TURN === 0) yield;
    while (live.length < plan.slots && waiting.length > 0) live.push({ done: 0, left: waiting.pop()! });
    if (live.length === 0) return seconds;
    const steps = minimum(live.map((sequence) => sequence.left));
    const contexts = live.map((sequence) => plan.promptTokens + sequence.done + steps / 2);
    seconds += steps * stepSeconds(contexts);
    live = live
      .map(({ done, left }) => ({ done: done + steps, left: left - steps }))
      .filter((sequence) => sequence.left > 0);
  }
}
