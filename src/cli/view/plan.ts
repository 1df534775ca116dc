/** What a run is going to do, in a few lines. */
import { warmupSteps } from '../../grpo/schedule';
import type { Config } from '../../config';
import { grouped } from '../../base/text';
import { count } from './format';

function rewardText({ reward, formatWeight }: Config): string {
  const entries = typeof reward === 'string' ? [{ name: reward, weight: 1 }] : reward;
  const all = [...entries, ...(formatWeight > 0 ? [{ name: 'format', weight: formatWeight }] : [])];
  return all.map(({ name, weight }) => (weight === 1 ? name : `${weight} x ${name}`)).join(' + ');
}

export function planLines(config: Config): string[] {
  const { promptsPerStep, numGenerations, stepsPerGeneration, numIterations } = config;
  const perUpdate = promptsPerStep * numGenerations;
  const warmup = warmupSteps(config.warmupRatio, config.maxSteps);
  const lines = [
    `reward     ${rewardText(config)}`,
    `each step  ${count(promptsPerStep, 'prompt')} x ${grouped(numGenerations)} completions = ${grouped(perUpdate)}, up to ${grouped(config.maxCompletionLength)} tokens each`,
    `training   ${count(config.maxSteps, 'step')}, ${config.lossType} loss, rate ${config.learningRate} ${config.lrSchedulerType} after ${warmup} warm-up, LoRA rank ${config.loraRank}, seed ${config.seed}`,
  ];
  if (stepsPerGeneration * numIterations > 1) {
    const completions = perUpdate * stepsPerGeneration;
    const updates = stepsPerGeneration * numIterations;
    lines.push(
      `generation ${grouped(completions)} completions together, used for ${count(updates, 'update')}`,
    );
  }
  return lines;
}
