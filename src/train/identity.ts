/**
 * What a run trusts: its checkpoints record the fingerprints of model, tokenizer, chat template, reward files
 * and evaluation data, and it continues with the same ones only. Those of the training data are checked in
 * `opening.ts`. Weights are hashed while the engine loads them, so they are compared last.
 */
import type { Config } from '../config';
import { badInput } from '../base/errors';
import { adapterFingerprints, type Fingerprints } from '../models';
import type { AcceptedChange, StoredCheckpoint } from '../run';
import { changed, checkModelFolder, tokenizerIdentity } from '../life/identity';
import { listed } from '../base/text';
import type { Inputs } from './inputs';
import { forkCommand } from './resume';
import { judgeModule, moduleFingerprints, samplerModule, usedRewards } from '../life/modules/user-modules';
import { storedPart, type Identity } from './state';

/** What is known before the model is loaded. */
export async function inputIdentity(
  config: Config,
  { tokenizer, evalData }: Pick<Inputs, 'tokenizer' | 'evalData'>,
): Promise<Omit<Identity, 'model'>> {
  return {
    ...tokenizerIdentity(tokenizer),
    rewards: await moduleFingerprints(usedRewards(config)),
    adapter: config.adapter === null ? {} : await adapterFingerprints(config.adapter),
    judge: await moduleFingerprints(judgeModule(config)),
    sampler: await moduleFingerprints(samplerModule(config)),
    evalData: evalData?.source === undefined ? null : { problems: evalData.source.fingerprint },
  };
}

/** Compares config.json and the weights, in a resumed run or a fork. @throws BAD_INPUT */
export function checkModel(directory: string, checkpoint: StoredCheckpoint, model: Fingerprints): void {
  const before = storedPart(checkpoint).identity;
  if (before !== undefined) checkModelFolder(directory, checkpoint.step, changed(before.model, model));
}

/**
 * Compares model folder, adapter and evaluation data with the checkpoint that a run is resumed from.
 * @param run its folder
 * @throws BAD_INPUT naming what has changed
 */
export function checkResumed(
  run: string,
  checkpoint: StoredCheckpoint,
  { identity: now, modelDirectory, evalData }: Inputs,
  config: Config,
): void {
  const { identity: before } = storedPart(checkpoint);
  if (before === undefined) return;
  const { step } = checkpoint;
  const names = [
    ...changed(before.tokenizer, now.tokenizer),
    ...changed(before.chatTemplate, now.chatTemplate),
  ];
  checkModelFolder(modelDirectory, step, names);
  checkModelFolder(config.adapter ?? '', step, changed(before.adapter ?? null, now.adapter ?? null));
  if (changed(before.evalData, now.evalData).length > 0) {
    throw badInput(
      `${evalData?.name ?? 'The evaluation data'} no longer holds the problems this run is evaluated on, so before and after could not be compared; restore it, or continue with the new problems in a new folder: ${forkCommand(run, step)}`,
    );
  }
}

/** A sentence on a sampler's file that has changed; null: it has not, or the setting says so itself. */
export async function samplerChange(checkpoint: StoredCheckpoint, config: Config): Promise<string | null> {
  const before = storedPart(checkpoint).identity?.sampler ?? {};
  const now = await moduleFingerprints(samplerModule(config));
  if (Object.keys(before).length === 0 || Object.keys(now).length === 0) return null;
  const files = changed(before, now);
  if (files.length === 0) return null;
  return `changed on resuming: ${files.join('; ')} (later numbers are no longer those of an uninterrupted run)`;
}

/**
 * Compares the files of judge and rewards with the checkpoint that a run is resumed from, before they are loaded.
 * @param run its folder
 * @returns what the checkpoint lists as accepted, and the change accepted now
 * @throws BAD_INPUT naming what has changed
 */
export async function checkModules(
  run: string,
  checkpoint: StoredCheckpoint,
  config: Config,
  acceptChanged: readonly string[],
): Promise<AcceptedChange[]> {
  const { identity: before, accepted = [] } = storedPart(checkpoint);
  if (before === undefined) return accepted;
  const { step } = checkpoint;
  const judged = changed(before.judge ?? null, await moduleFingerprints(judgeModule(config)));
  if (judged.length > 0) {
    throw badInput(
      `The judge's file ${config.judge} has changed since the checkpoint of step ${step} (${judged.join('; ')}), so before and after could not be compared; restore it, or continue with the new one in a new folder: ${forkCommand(run, step)}`,
    );
  }
  const files = changed(before.rewards, await moduleFingerprints(usedRewards(config)));
  if (files.length === 0) return accepted;
  if (acceptChanged.includes('reward')) return [...accepted, { what: 'reward', step, files }];
  const paths = Object.entries(config.rewardModules)
    .filter(([name]) => files.some((file) => file === name || file.startsWith(`${name}: `)))
    .map(([, path]) => path);
  throw badInput(
    `The reward file ${listed(paths)} has changed since the checkpoint of step ${step} (${files.join('; ')}); restore it, or continue with the new one: --accept-changed reward, which the run will show.`,
  );
}

/**
 * Compares what a fork cannot change with the checkpoint it starts from: chat template, rewards and
 * evaluation data may differ.
 * @throws BAD_INPUT naming what has changed
 */
export function checkForked(checkpoint: StoredCheckpoint, { identity: now, modelDirectory }: Inputs): void {
  const { identity: before } = storedPart(checkpoint);
  if (before === undefined) return;
  checkModelFolder(modelDirectory, checkpoint.step, changed(before.tokenizer, now.tokenizer));
}

/**
 * Whether a fork has another reward file than its checkpoint, or is evaluated otherwise: on other problems, or
 * by another judge.
 */
export function forkChanges(
  checkpoint: StoredCheckpoint,
  { identity: now }: Inputs,
  from: Config,
  to: Config,
) {
  const { identity: before } = storedPart(checkpoint);
  const judge =
    from.judge !== to.judge ||
    JSON.stringify(from.judgeParams) !== JSON.stringify(to.judgeParams) ||
    (before !== undefined && changed(before.judge ?? null, now.judge ?? null).length > 0);
  return {
    rewards: judge || (before !== undefined && changed(before.rewards, now.rewards).length > 0),
    evalData: judge || (before !== undefined && changed(before.evalData, now.evalData).length > 0),
  };
}
