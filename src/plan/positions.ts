/** The room a model has for a prompt and its completion. */
import type { Config } from '../config';
import { AcoerError } from '../errors';
import type { PlannedModel } from './model-shape';

/** @throws BAD_CONFIG when `maxCompletionLength` leaves no room for a prompt */
export function assertRoomForPrompt(
  config: Config,
  { maxPositions }: Pick<PlannedModel, 'maxPositions'>,
): void {
  const { maxCompletionLength, model } = config;
  if (maxCompletionLength < maxPositions) return;
  throw new AcoerError(
    'BAD_CONFIG',
    `maxCompletionLength is ${maxCompletionLength}, but ${model} has ${maxPositions} positions for a prompt and its completion; lower it.`,
  );
}

/** Most tokens of a prompt that is trained on. */
export const promptLimit = (
  { maxPromptLength, maxCompletionLength }: Config,
  { maxPositions }: Pick<PlannedModel, 'maxPositions'>,
): number => Math.min(maxPromptLength ?? Infinity, maxPositions - maxCompletionLength);
