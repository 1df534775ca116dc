/** A model's shape from its config.json, or from its name if that is known, and the positions it has. */
import { needString } from '../base/border';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { badUsage } from '../base/errors';
import type { Config } from '../config';
import type { Dtype } from '../engine/types';
import { readModelSpec, resolveShape } from '../models';
import type { ModelShape } from './cost';
import { SHAPES } from './shapes';

export interface PlannedModel {
  shape: ModelShape;
  /** Type in the files (float16 counts as float32, in which it is computed). */
  storedDtype: Dtype;
  /** Longest sequence, prompt plus completion. */
  maxPositions: number;
  /** Size of tokenizer.json, of which the process holds several times as much in memory. */
  tokenizerBytes: number;
}

/** Size of Qwen3's tokenizer.json, assumed for the other known models, too. */
const QWEN3_TOKENIZER_BYTES = 11_422_654;

/** From `directory`/config.json, as the engine reads it. @throws BAD_FILE */
export async function readPlannedModel(directory: string): Promise<PlannedModel> {
  const spec = await readModelSpec(directory);
  return {
    shape: spec,
    storedDtype: spec.dtype,
    maxPositions: spec.maxPositions,
    tokenizerBytes: statSync(join(directory, 'tokenizer.json'), { throwIfNoEntry: false })?.size ?? 0,
  };
}

/** Names on the hub whose numbers are those of another name here, in the order in which they are tried. */
const SAME_NUMBERS: readonly (readonly [suffix: RegExp, instead: string])[] = [
  [/^(qwen3-4b)-(?:instruct|thinking)-2507$/, '$1-2507'],
  [/^(qwen3-.*)-base$/, '$1'],
  [/^((?:qwen2\.5|smollm2|llama-3\.[12])-.*)-instruct$/, '$1'],
];

/** Organisations whose copies of these models have the numbers of the originals. */
const OWNERS = /^(?:qwen|huggingfacetb|meta-llama|deepseek-ai|unsloth)\//;

/** Shapes of `Qwen/Qwen3-1.7B`, `deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B` and the like are known without their files. */
function knownModel(name: string): PlannedModel | undefined {
  const asked = name
    .toLowerCase()
    .replace(/@.*$/, '')
    .replace(OWNERS, '')
    .replace(/^deepseek-(?=r1-)/, '');
  const names = [asked, ...SAME_NUMBERS.map(([suffix, instead]) => asked.replace(suffix, instead))];
  const key = names.find((one) => Object.hasOwn(SHAPES, one));
  if (key === undefined || key === 'tiny') return undefined;
  const shape = SHAPES[key as keyof typeof SHAPES];
  const { maxPositions } = shape;
  return { shape, storedDtype: 'bfloat16', maxPositions, tokenizerBytes: QWEN3_TOKENIZER_BYTES };
}

/** `name` is as in `model:` of a configuration; for a hub model only its config is downloaded. */
export async function plannedModel(name: string): Promise<PlannedModel> {
  needString('the name of the model', name);
  const known = existsSync(name) ? undefined : knownModel(name);
  return known ?? readPlannedModel(await resolveShape(name));
}

/** @throws BAD_CONFIG if `maxCompletionLength` leaves no room for a prompt */
export function assertRoomForPrompt(
  config: Config,
  { maxPositions }: Pick<PlannedModel, 'maxPositions'>,
): void {
  const { maxCompletionLength, model } = config;
  if (maxCompletionLength < maxPositions) return;
  throw badUsage(
    `maxCompletionLength is ${maxCompletionLength}, but ${model} has only ${maxPositions} positions for prompt and completion; lower maxCompletionLength.`,
  );
}

/** Maximum tokens of a prompt used for training. */
export const promptLimit = (
  { maxPromptLength, maxCompletionLength }: Config,
  { maxPositions }: Pick<PlannedModel, 'maxPositions'>,
): number => Math.min(maxPromptLength ?? Infinity, maxPositions - maxCompletionLength);
