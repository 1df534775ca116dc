/** The addon for several processes (native/ranks) as types, and the only file that loads it. Only runs of several processes do. */
import { loadAddonFile } from '../base/addon';

/** How a store is opened. */
export interface StoreAddress {
  host: string;
  port: number;
  /** The numeric address to serve the store on, and no other; null: another process serves it. */
  bind: string | null;
  /** Put before every key. */
  prefix: string;
  /** How long to wait for the process that serves it. */
  timeoutMs: number;
}

export interface BeatOptions {
  rank: number;
  size: number;
  everyMs: number;
  /** A process that did nothing for longer is one that the others have given up. */
  stoppedAfterMs: number;
  /** Ends such a process at once. */
  exitWhenStopped: boolean;
  /** What every beat tells besides its number. */
  told: string;
}

/** What the thread of the beats has seen. `failed` and `stoppedMs` are its last words. */
export interface BeatReport {
  /** One per rank: the number of its newest beat, a space, and what it told. */
  beats?: string[];
  /** Notes that a rank has set for all. */
  notes?: { end?: string; stop?: string };
  /** Why the store cannot be reached. */
  failed?: string;
  /** For how long this process was stopped, or cut off. */
  stoppedMs?: number;
}

/** Texts by key, on one process for all. Calls run one after another on a thread; none keeps the process alive but `open`. */
export interface NativeStore {
  /** @returns the port */
  open(address: StoreAddress): Promise<number>;
  set(key: string, text: string): Promise<void>;
  /** Waits for a key that is not there. */
  get(key: string): Promise<string>;
  has(key: string): Promise<boolean>;
  /** @returns what the key holds now: `text`, unless it was set before */
  setOnce(key: string, text: string): Promise<string>;
  beat(options: BeatOptions, report: (report: BeatReport) => void): void;
  tell(text: string): void;
  close(): void;
}

/** The connections of each rank with every other. All ranks make the same calls in the same order. */
export interface NativeGroup {
  /** @param options `address`: the numeric address that others reach this process at */
  open(options: { store: NativeStore; rank: number; size: number; address: string }): Promise<void>;
  /** What every rank brought, in rank order. */
  gather(bytes: Uint8Array): Promise<Uint8Array[]>;
  /** Replaces the numbers in their own memory, which must not be touched meanwhile. */
  sum(values: Float64Array | Float32Array): Promise<void>;
  /** Each rank has the numbers `[offsets[rank], offsets[rank + 1])`, and gets those of the others in the same way. */
  gatherInPlace(values: Float64Array | Float32Array, offsets: number[]): Promise<void>;
  /** Resolves when the left neighbour parts, and rejects when its connection ends without that. */
  watch(): Promise<void>;
  /** Tells the right neighbour, after the last collective, that this process ends as it should. */
  part(): Promise<void>;
  close(): void;
}

interface NativeRanks {
  Store: new () => NativeStore;
  Group: new () => NativeGroup;
}

let loaded: NativeRanks | undefined;

/** @throws LOAD_FAILED if the addon is not built */
export function nativeRanks(): NativeRanks {
  // What libtorch says of a lost peer is 20 lines of C++ frames; ours is one sentence.
  process.env['TORCH_CPP_LOG_LEVEL'] ??= 'FATAL';
  return (loaded ??= loadAddonFile('ranks', 'the addon for several processes') as NativeRanks);
}
