/** What `acoer eval` can be told. */
import type { AnswerPreset } from '../../eval';
import type { EngineFlags } from '../command';

export interface EvalFlags extends EngineFlags {
  model?: string;
  adapter: string[];
  run: string[];
  base?: boolean;
  benchmark: string[];
  problems?: number;
  samples: number;
  temperature?: number;
  maxNewTokens?: number;
  promptTemplate?: string;
  seed: number;
  slots?: number;
  out?: string;
  completions?: string;
  tokenizer?: string;
  answers: AnswerPreset;
  /** Two, once checked. */
  compare?: string[];
  json?: boolean;
}

/** One answer a problem is the one the model is surest of; several need draws. */
export const temperatureOf = ({ temperature, samples }: EvalFlags): number =>
  temperature ?? (samples > 1 ? 1 : 0);
