/** How fast the processes of a run exchange data. */
import { maximum, median } from '../base/statistics';
import type { ProcessGroup } from '.';

/** The gradient of the paper's adapter, summed once a step. */
const BYTES = 70e6;
/** Rows are sent in pieces of about this size; larger ones cost fresh memory, not only the connection. */
const PIECES = 10;
const ROUNDS = 5;
const SMALL_ROUNDS = 20;

export interface RankSpeeds {
  bytes: number;
  /** Of an exchange of nothing: what each of a step's many costs at least. */
  exchangeMs: number;
  /** Of a sum of `bytes`. */
  sumMs: number;
  /** By rank: how long until all others have `bytes` of it. */
  sendMs: number[];
}

/** The median time until the last rank has done `work`, which all begin together. The first round is not counted. */
export async function timed(
  group: ProcessGroup,
  rounds: number,
  work: () => Promise<unknown>,
): Promise<number> {
  const timesMs: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    await group.allGather(null);
    const begun = performance.now();
    await work();
    const all = await group.allGather(performance.now() - begun);
    if (round > 0) timesMs.push(maximum(all));
  }
  return median(timesMs);
}

/** All ranks call this, and get the same. @throws what the group throws */
export async function measureRanks(group: ProcessGroup, bytes = BYTES): Promise<RankSpeeds> {
  const exchangeMs = await timed(group, SMALL_ROUNDS, () => group.allGather(null));
  const values = new Float64Array(bytes / Float64Array.BYTES_PER_ELEMENT);
  const sumMs = await timed(group, ROUNDS, () => group.sumInPlace(values));
  const [piece, none] = [new Uint8Array(bytes / PIECES), new Uint8Array()];
  const sendMs: number[] = [];
  for (let rank = 0; rank < group.size; rank++) {
    const send = async () => {
      for (let i = 0; i < PIECES; i++) await group.allGather(rank === group.rank ? piece : none);
    };
    sendMs.push(await timed(group, ROUNDS, send));
  }
  return { bytes, exchangeMs, sumMs, sendMs };
}

/** A rank that needs this many times longer than the median is slow. */
const SLOW = 1.5;

/** Which ranks send slowly. Of two, the connection is the same, so the slower one is. */
export function slowRanks({ sendMs }: Pick<RankSpeeds, 'sendMs'>): boolean[] {
  // The lower of the two in the middle: half of the ranks may be slow.
  const usual = [...sendMs].sort((a, b) => a - b)[Math.floor((sendMs.length - 1) / 2)]!;
  return sendMs.map((ms) => ms > SLOW * usual);
}
