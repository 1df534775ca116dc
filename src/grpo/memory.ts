/** What a run has learnt about how much fits into memory, and how its steps are split to fit. */
import type { Config } from '../config';
import { DEFAULT_SLOTS, SlotLimit, untilItFits } from '../sampling';
import { AcoerError, errorCode, errorMessage } from '../base/errors';
import { minimum } from '../base/statistics';
import { packByTokens, runsByTokens, runTokens, type Run, type Tokens } from '../base/packing';

/** Limits found after running out of memory; null: the configured one has held so far. Plain JSON. */
export interface LearntLimits {
  microBatchTokens: number | null;
  maxSlots: number | null;
}

export const NOTHING_LEARNT: LearntLimits = { microBatchTokens: null, maxSlots: null };

/** Settings about how much memory there is or how it is used: if one changes, the learnt limits are void. */
const ABOUT_MEMORY = [
  'device',
  'dtype',
  'quantization',
  'memoryLimitBytes',
  'microBatchTokens',
  'maxSlots',
  'kvBytes',
  'kvCacheDtype',
] as const;

/** The limits learnt under `before`, if they still hold under `config`. */
export function stillLearnt(learnt: LearntLimits | undefined, before: Config, config: Config): LearntLimits {
  const changed = ABOUT_MEMORY.some((name) => (before[name] ?? null) !== config[name]);
  return changed ? NOTHING_LEARNT : (learnt ?? NOTHING_LEARNT);
}

/** The limits that hold where all of `learnt` do. */
export function lowestLimits(learnt: readonly LearntLimits[]): LearntLimits {
  const lowest = (limits: (number | null)[]) => {
    const known = limits.filter((limit) => limit !== null);
    return known.length === 0 ? null : minimum(known);
  };
  return {
    microBatchTokens: lowest(learnt.map(({ microBatchTokens }) => microBatchTokens)),
    maxSlots: lowest(learnt.map(({ maxSlots }) => maxSlots)),
  };
}

export type MemoryPhase = 'rollout' | 'scoring' | 'training' | 'evaluation';

/**
 * OUT_OF_MEMORY as an error that says what to change, in the order in which `acoer plan` advises it; any other error
 * unchanged.
 */
export function memoryError(
  error: unknown,
  phase: MemoryPhase,
  config: Pick<Config, 'memoryLimitBytes' | 'dtype'>,
  what = '',
  length = phase === 'evaluation' ? 'evalMaxNewTokens' : 'maxCompletionLength',
): unknown {
  if (errorCode(error) !== 'OUT_OF_MEMORY') return error;
  const remedies = [
    ...(config.memoryLimitBytes === null ? [] : ['raise memoryLimitBytes']),
    ...(config.dtype === 'bfloat16' ? [] : ['set dtype to bfloat16']),
    `lower ${length}`,
  ];
  const message = `Out of memory in ${phase}${what}, and nothing smaller is left to try: ${remedies.join(' or ')} (acoer plan shows what uses the memory). ${errorMessage(error)}`;
  return new AcoerError('OUT_OF_MEMORY', message, { cause: error });
}

export interface MemoryOptions {
  /** Called with one sentence when a limit is lowered. */
  warn?: (message: string) => void;
  /** What to lower when a single sequence does not fit. Default: what its phase depends on. */
  lengthSetting?: string;
}

export class MemoryLimits {
  private learnt: LearntLimits = NOTHING_LEARNT;

  constructor(
    private readonly config: Pick<Config, 'memoryLimitBytes' | 'dtype' | 'microBatchTokens'> &
      // A run that samples nothing has no slots.
      Partial<Pick<Config, 'maxSlots'>>,
    private readonly options: MemoryOptions = {},
  ) {}

  /** Continues with what was learnt before. */
  restore(learnt: LearntLimits): void {
    this.learnt = learnt;
  }

  state(): LearntLimits {
    return this.learnt;
  }

  get microBatchTokens(): number {
    return this.learnt.microBatchTokens ?? this.config.microBatchTokens;
  }

  get maxSlots(): number {
    return this.learnt.maxSlots ?? this.config.maxSlots ?? DEFAULT_SLOTS;
  }

  /** The limit for one generation; what it learns is kept. */
  slots(): SlotLimit {
    return new SlotLimit(this.maxSlots, (maxSlots) => {
      this.learnt = { ...this.learnt, maxSlots };
      this.options.warn?.(
        `Out of memory in rollout; from now on at most ${maxSlots} sequences are decoded at a time.`,
      );
    });
  }

  /**
   * Calls `pass` with one bin of whole runs after the other. If memory runs out in a bin of several sequences,
   * calls `restart` and starts over with bins of at most half of that bin's tokens, a limit for the rest of the
   * run, which also cuts runs above it. So the result depends on the limit that held, not on where memory ran out.
   * Returns the number of bins.
   *
   * @throws OUT_OF_MEMORY when a single sequence does not fit
   */
  async inBins<Sample extends Tokens>(
    phase: 'scoring' | 'training',
    runs: readonly Run<Sample>[],
    pass: (members: readonly Sample[], runs: readonly Run<Sample>[]) => Promise<void>,
    restart: () => void | Promise<void> = () => undefined,
  ): Promise<number> {
    let members: readonly Sample[] = [];
    return untilItFits(
      async () => {
        const most = this.microBatchTokens;
        const fitting = runs.flatMap((run) => (runTokens(run) > most ? runsByTokens(run, most) : [run]));
        const bins = packByTokens(fitting.map(runTokens), most);
        for (const bin of bins) {
          const own = bin.map((i) => fitting[i]!);
          members = own.flat();
          await pass(members, own);
        }
        return bins.length;
      },
      async (error) => {
        this.halve(phase, members, error);
        await restart();
      },
    );
  }

  private halve(phase: MemoryPhase, members: readonly Tokens[], error: unknown): void {
    const tokens = runTokens(members);
    if (members.length <= 1)
      throw memoryError(
        error,
        phase,
        this.config,
        ` on one sequence of ${tokens} tokens`,
        this.options.lengthSetting,
      );
    this.learnt = { ...this.learnt, microBatchTokens: Math.floor(tokens / 2) };
    this.options.warn?.(
      `Out of memory in ${phase} on ${members.length} sequences of ${tokens} tokens; the step is repeated, and from now on a pass takes at most ${this.microBatchTokens} tokens.`,
    );
  }
}
