import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Model, Policy } from '../../src/engine/types';
import {
  adapterDirectory,
  differingTensors,
  maxDifference,
  modelDirectory,
  packed,
  readJson,
  readSafetensors,
  under,
  values,
  withEngine,
} from '../helpers/fixtures';
import { surrogatePass } from '../helpers/training';

interface Expected {
  beta1: number;
  beta2: number;
  eps: number;
  weightDecay: number;
  learningRates: number[];
  runs: Record<string, { losses: number[]; gradNorms: number[]; maxGradNorm: number }>;
}
const EXPECTED = readJson<Expected>('optimizer/expected.json');

/**
 * float64 on both sides. AdamW divides a gradient by its own size, so where one is nearly zero a rounding of 1e-16 is
 * carried into the step; ten steps keep eight digits of the losses and norms, seven of the log-probs.
 */
const LOSSES = 1e-8;
const LOGPROBS = 1e-7;
/** The files hold float32: half a unit in the last place is 6e-8 of a value. */
const PARAMETERS = 2e-7;

/** Ten steps on the stored batch. */
async function train(policy: Policy, tag: string) {
  const fixture = readSafetensors(`optimizer/${tag}.safetensors`);
  const advantages = values(fixture, 'advantages');
  const old = values(fixture, 'old');
  const losses: number[] = [];
  const gradNorms: number[] = [];
  for (const learningRate of EXPECTED.learningRates) {
    losses.push(await surrogatePass(policy, packed(fixture), advantages, old));
    const { weightDecay } = EXPECTED;
    const { maxGradNorm } = EXPECTED.runs[tag]!;
    const result = await policy.step({ learningRate, weightDecay, maxGradNorm });
    expect(result.applied).toBe(true);
    gradNorms.push(result.gradNorm);
  }
  return { losses, gradNorms, fixture };
}

async function compare(model: Model, policy: Policy, tag: string, savedAs: string): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'acoer-optimizer-'));
  try {
    const { losses, gradNorms, fixture } = await train(policy, tag);
    const expected = EXPECTED.runs[tag]!;
    expect(maxDifference(losses, expected.losses)).toBeLessThan(LOSSES);
    // Norms are up to 60: relative.
    const relative = gradNorms.map((norm, i) => norm / expected.gradNorms[i]! - 1);
    expect(maxDifference(relative, new Array<number>(10).fill(0))).toBeLessThan(LOSSES);
    const { logprobs } = await model.score(packed(fixture), { policy });
    expect(maxDifference(logprobs, values(fixture, 'final'))).toBeLessThan(LOGPROBS);
    const path = join(directory, savedAs);
    await policy.save(path, 'float32');
    expect(differingTensors(readSafetensors(path), under(fixture, 'after.'), PARAMETERS)).toEqual([]);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

describe('ten AdamW steps, with weight decay and clipping, equal torch.optim.AdamW', () => {
  test('an adapter', async () => {
    await withEngine(async (engine) => {
      const model = await engine.loadModel(modelDirectory('tied-kv2'), { dtype: 'float64' });
      const policy = await model.loadAdapter(adapterDirectory('all-r4'));
      await compare(model, policy, 'all-r4', 'adapter_model.safetensors');
    });
  });

  // Norms do not decay, by transformers' own rule, nor do qwen2's biases.
  test.each(['tied-kv4', 'untied-kv1', 'qwen2-tied'])('the whole of %s', async (name) => {
    await withEngine(async (engine) => {
      const model = await engine.loadModel(modelDirectory(name), { dtype: 'float64' });
      const { beta1, beta2, eps } = EXPECTED;
      const policy = await model.createPolicy({ kind: 'full', beta1, beta2, eps });
      await compare(model, policy, `full-${name}`, 'model.safetensors');
    });
  });
});
