/** A model's positions available to a prompt and its completion. */
import type { Config } from '../config';
import { AcoerError } from '../base/errors';
import type { PlannedModel } from './model-shape';

/** @throws BAD_CONFIG if `maxCompletionLength` leaves no room for a prompt */
export function assertRoomForPrompt(
  config: Config,
  { maxPositions }: Pick<PlannedModel, 'maxPositions'>,
): void {
  const { maxCompletionLength, model } = config;
  if (maxCompletionLength < maxPositions) return;
  throw new AcoerError(
    'BAD_CONFIG',
    `maxCompletionLength is ${maxCompletionLength}, but ${model} has only ${maxPositions} positions for prompt and completion; lower maxCompletionLength.`,
  );
}

/** Maximum tokens of a prompt used for training. */
export const promptLimit = (
  { maxPromptLength, maxCompletionLength }: Config,
  { maxPositions }: Pick<PlannedModel, 'maxPositions'>,
): number => Math.min(maxPromptLength ?? Infinity, maxPositions - maxCompletionLength);
