/** The options of `acoer eval`. */
import type { KvCacheDtype } from '../../engine/types';
import type { AnswerPreset } from '../../eval';
import type { EngineFlags } from '../command';
import type { JudgeFlags } from '../judge';
import type { RanksFlags } from '../nproc';

export interface EvalFlags extends EngineFlags, JudgeFlags, RanksFlags {
  model?: string;
  adapter: string[];
  run: string[];
  trust?: boolean;
  base?: boolean;
  benchmark: string[];
  problems?: number;
  samples: number;
  temperature?: number;
  maxNewTokens?: number;
  promptTemplate?: string;
  seed: number;
  slots?: number;
  kvCacheDtype: KvCacheDtype;
  numSpeculativeTokens: number;
  out?: string;
  completions?: string;
  tokenizer?: string;
  answers: AnswerPreset;
  /** Exactly two once checked. */
  compare?: string[];
  json?: boolean;
}

/** One answer per problem is decoded greedily; several must be sampled. */
export const temperatureOf = ({ temperature, samples }: EvalFlags): number =>
  temperature ?? (samples > 1 ? 1 : 0);
