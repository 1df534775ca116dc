/** How far a sampling has come: from reports of what is being decoded, and completions as they end. */
import type { Prompt } from '../base/types';

/** A sequence that is being decoded. */
export interface InFlight {
  /** Index of its prompt in the list given to the sampler. */
  prompt: number;
  sample: number;
  /** New tokens so far. */
  tokens: number;
}

/** What a sampler reports from time to time. */
export interface SampleProgress {
  /** Prompt tokens read so far; starts over when memory runs out. */
  promptTokens: number;
  /** Every sequence that has begun and not ended. */
  inFlight: readonly InFlight[];
}

/** Tokens sampled so far, and what is being decoded. */
export interface Decoding {
  /** New tokens so far, of the completions that have ended and of those in flight. */
  tokens: number;
  /** The mean since sampling began. */
  tokensPerSecond: number;
  /** `prompt` is the prompt's `index`, no longer its place in the list. */
  sequences: readonly (InFlight & { problemId: string })[];
}

const keyOf = ({ prompt, sample }: Omit<InFlight, 'tokens'>) => `${prompt} ${sample}`;

export class DecodeTracker {
  private readonly begunMs = performance.now();
  private prompts: readonly Prompt[] = [];
  private endedTokens = 0;
  private promptTokens = 0;
  private flying = new Map<string, InFlight>();
  private readonly landed = new Set<string>();

  /** Another list of prompts goes to the sampler, after every completion of the last has ended. */
  begin(prompts: readonly Prompt[]): void {
    this.prompts = prompts;
    this.promptTokens = 0;
    this.flying.clear();
    this.landed.clear();
  }

  /** A completion has ended. */
  ended(one: InFlight): void {
    this.endedTokens += one.tokens;
    this.flying.delete(keyOf(one));
    this.landed.add(keyOf(one));
  }

  /** Whether anything has moved since the last report. */
  report({ promptTokens, inFlight }: SampleProgress): boolean {
    const before = this.flying;
    const now = inFlight.filter((one) => !this.landed.has(keyOf(one)));
    this.flying = new Map(now.map((one) => [keyOf(one), one]));
    const moved =
      promptTokens !== this.promptTokens || now.some((one) => before.get(keyOf(one))?.tokens !== one.tokens);
    this.promptTokens = promptTokens;
    return moved;
  }

  get decoding(): Decoding {
    const flying = [...this.flying.values()];
    const tokens = flying.reduce((sum, one) => sum + one.tokens, this.endedTokens);
    const seconds = Math.max(1e-3, (performance.now() - this.begunMs) / 1_000);
    const sequences = flying.map(({ prompt, sample, tokens: soFar }) => {
      const { index, problem } = this.prompts[prompt]!;
      return { prompt: index, problemId: problem.id, sample, tokens: soFar };
    });
    return { tokens, tokensPerSecond: tokens / seconds, sequences };
  }
}
