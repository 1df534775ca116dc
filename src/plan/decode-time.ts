/** Seconds to decode completions of drawn lengths, which enter the slots and pages of a cache in order. */
import { groupsPerBatch, updatesPerBatch } from '../base/batches';
import { groupsNeeded, groupsToBegin, nextBatch, type QueueSettings } from '../base/queue';
import { mean, minimum } from '../base/statistics';
import { PageAdmission, type KvPlan } from './kv';

/** What decoding takes on a device. */
export interface DecodeClock {
  /** Of one decode step of sequences that see so many tokens. */
  decodeStep: (contextLengths: readonly number[]) => number;
  /** Of a prompt of so many tokens. */
  prefill: (promptTokens: number) => number;
}

/** Completions that end between two points at which the work can be interrupted. */
const PER_TURN = 64;

/**
 * Seconds to decode completions of these lengths in the slots and pages of a cache, which they enter in order as
 * those become free. Between two ends the same sequences decode, and that stretch takes its number of steps times the
 * time of its middle step. Yields between pieces of the work.
 * @param stepSeconds of one decode step of sequences that see so many tokens
 */
export function* decodeSeconds(
  promptTokens: number,
  lengths: readonly number[],
  kv: KvPlan,
  stepSeconds: DecodeClock['decodeStep'],
): Generator<void, number> {
  const admission = new PageAdmission(kv);
  const waiting = [...lengths].reverse();
  let live: { done: number; left: number }[] = [];
  let seconds = 0;
  for (let stretch = 1; ; stretch++) {
    if (stretch % PER_TURN === 0) yield;
    const positions = live.map(({ done }) => promptTokens + done);
    while (waiting.length > 0 && admission.admits(positions, promptTokens)) {
      live.push({ done: 0, left: waiting.pop()! });
      positions.push(promptTokens);
    }
    if (live.length === 0) return seconds;
    const steps = minimum(live.map((sequence) => sequence.left));
    const contexts = live.map((sequence) => promptTokens + sequence.done + steps / 2);
    seconds += steps * stepSeconds(contexts);
    live = live.map(({ done, left }) => ({ done: done + steps, left: left - steps }));
    for (const { done, left } of live) {
      if (left === 0) admission.ended(promptTokens + done);
    }
    live = live.filter((sequence) => sequence.left > 0);
  }
}

/** A completion of a group in flight. */
interface Going {
  group: InFlight;
  done: number;
  left: number;
}

interface InFlight {
  begun: number;
  completed: number | null;
  sequences: Going[];
}

/** The seconds of a batch. */
export interface BatchSeconds {
  decode: number;
  prefill: number;
}

/** What is in flight, from batch to batch. */
class Flight {
  private live: InFlight[] = [];
  private order = 0;
  private step = 0;

  /** @param groups lengths of the completions of each group, in the order in which they begin */
  constructor(
    private readonly settings: QueueSettings,
    private readonly promptTokens: number,
    private readonly groups: Iterator<readonly number[]>,
    private readonly kv: KvPlan,
    private readonly clock: DecodeClock,
  ) {}

  /** The next batch; null: no groups are left to begin. */
  *batch(): Generator<void, BatchSeconds | null> {
    const { settings, step } = this;
    for (let i = groupsToBegin(settings, step, this.live.length); i > 0; i--) {
      const next = this.groups.next();
      if (next.done === true) return null;
      const group: InFlight = { begun: step, completed: null, sequences: [] };
      group.sequences = next.value.map((left) => ({ group, done: 0, left }));
      this.live.push(group);
    }
    const needed = groupsNeeded(settings, step, this.live);
    const seconds = yield* this.decode(needed);
    const taken = nextBatch(this.live, needed);
    this.live = this.live.filter((group) => !taken.includes(group));
    this.step += updatesPerBatch(settings);
    return seconds;
  }

  private enough(needed: Int32Array): boolean {
    let complete = 0;
    return needed.every((count, i) => {
      if (this.live[i]!.completed !== null) complete++;
      return complete >= count;
    });
  }

  private *decode(needed: Int32Array): Generator<void, BatchSeconds> {
    const { promptTokens, clock } = this;
    // Every generation begins with an empty cache, and continued completions are prefilled.
    const admission = new PageAdmission(this.kv);
    const waiting = this.live.flatMap(({ sequences }) => sequences.filter(({ left }) => left > 0)).reverse();
    const prefilled = new Set<InFlight>();
    let decoding: Going[] = [];
    const seconds = { decode: 0, prefill: 0 };
    const positionsOf = ({ done }: Going) => promptTokens + done;
    for (let stretch = 1; !this.enough(needed); stretch++) {
      if (stretch % PER_TURN === 0) yield;
      const positions = decoding.map(positionsOf);
      for (let next = waiting.at(-1); next !== undefined; next = waiting.at(-1)) {
        if (!admission.admits(positions, positionsOf(next))) break;
        decoding.push(waiting.pop()!);
        positions.push(positionsOf(next));
        // Completions that have not begun share the prompt.
        if (next.done > 0 || !prefilled.has(next.group)) seconds.prefill += clock.prefill(positionsOf(next));
        if (next.done === 0) prefilled.add(next.group);
      }
      const steps = minimum(decoding.map(({ left }) => left));
      seconds.decode += steps * clock.decodeStep(decoding.map((one) => positionsOf(one) + steps / 2));
      for (const one of decoding) {
        one.done += steps;
        one.left -= steps;
        if (one.left > 0) continue;
        admission.ended(positionsOf(one));
        if (one.group.sequences.every(({ left }) => left === 0)) one.group.completed ??= this.order++;
      }
      decoding = decoding.filter(({ left }) => left > 0);
    }
    return seconds;
  }
}

/**
 * Seconds of a batch with groups in flight, once as many as wanted are: the mean over those that the drawn groups make.
 * @param groups lengths of the completions of each group, in the order in which they begin
 */
export function* inFlightSeconds(
  settings: QueueSettings,
  promptTokens: number,
  groups: readonly (readonly number[])[],
  kv: KvPlan,
  clock: DecodeClock,
): Generator<void, BatchSeconds> {
  const endless = { ...settings, maxSteps: Infinity };
  const flight = new Flight(endless, promptTokens, groups[Symbol.iterator](), kv, clock);
  // The first groups begin together.
  const first = Math.ceil((2 * settings.groupsInFlight!) / groupsPerBatch(settings));
  const batches: BatchSeconds[] = [];
  for (;;) {
    const seconds = yield* flight.batch();
    if (seconds === null) break;
    batches.push(seconds);
  }
  const steady = batches.slice(batches.length > first ? first : 0);
  return {
    decode: mean(steady.map(({ decode }) => decode)),
    prefill: mean(steady.map(({ prefill }) => prefill)),
  };
}
