/**
 * A real server of vLLM with SmolLM2-135M-Instruct, where ACOER_VLLM_URL names one (docs/external-sampler.md has the
 * command): `npm run test:vllm`.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packSequences } from '../../src/base/packing';
import { createEngine } from '../../src/engine/engine';
import type { Model, Policy } from '../../src/engine/types';
import { runAdapterConfig, writeDirectoryAtomic, writeWeights } from '../../src/run';
import { VllmSampler } from '../../src/samplers/vllm';
import { trainApart } from '../../src/samplers/vllm/handshake';
import { Server } from '../../src/samplers/vllm/server';
import type { SampledCompletion } from '../../src/sampling';
import { train, type TrainEvent } from '../../src/train';
import { metricsOf } from '../helpers/fake-run';
import { realModel } from '../helpers/real-model';

const url = process.env.ACOER_VLLM_URL;
const root = mkdtempSync(join(tmpdir(), 'acoer-vllm-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const LORA = {
  ...{ loraRank: 8, loraAlpha: 16, useRslora: false, loraDropout: 0 },
  targetModules: ['q_proj', 'v_proj'] as const,
};
const prompts = [Int32Array.of(504, 3575, 282, 4649, 314), Int32Array.of(6403, 253, 655, 28, 665)];
const newPolicy = (model: Model) =>
  model.createPolicy({
    ...{ kind: 'lora', rank: LORA.loraRank, alpha: LORA.loraAlpha, seed: 5n },
    targetModules: [...LORA.targetModules],
  });
const saveAdapter = (model: Model) => (policy: Policy, folder: string) => {
  const config = runAdapterConfig({ ...LORA, model: realModel('bfloat16'), full: false }, policy, model);
  return writeDirectoryAtomic(folder, (path) => writeWeights(path, policy, config));
};

async function withModel(work: (model: Model, policy: Policy) => Promise<void>): Promise<void> {
  await using engine = await createEngine({ device: 'cpu' });
  const model = await engine.loadModel(realModel('bfloat16'));
  await work(model, await newPolicy(model));
}

const samplerOf = (model: Model, policy: Policy, told: string[], temperature = 1) =>
  new VllmSampler(
    {
      servers: [url!],
      folder: join(root, 'adapters'),
      ownFolder: true,
      requests: 8,
      patienceMs: 5_000,
      key: null,
    },
    {
      ...{ model, policy, saveAdapter: saveAdapter(model), newPolicy: () => newPolicy(model) },
      probe: { modelName: 'SmolLM2', prompts, temperature, maxNewTokens: 64 },
      ...{ tell: (message) => told.push(message), warn: (message) => told.push(message) },
    },
  );

(url === undefined ? describe.skip : describe)('vLLM', () => {
  jest.setTimeout(600_000);

  test('is proved; its completions are in order, and follow an adapter over a warm prefix cache', async () => {
    await withModel(async (model, policy) => {
      const told: string[] = [];
      const sampler = samplerOf(model, policy, told);
      await sampler.open();
      expect(told).toEqual([expect.stringMatching(/log-probs 0\.0\d+ nats from the trainer's/)]);
      const asked = prompts.map((ids, i) => ({
        ...{ ids, thinkOpened: false, firstSample: 0, numSamples: 2, seed: BigInt(i), maxNewTokens: 32 },
      }));
      const settings = { sampling: { temperature: 1 }, stopIds: Int32Array.of(2) };
      const sampled = async (version: number) => {
        const all: SampledCompletion[] = [];
        await sampler.follow(version);
        await sampler.sample(asked, settings, (completion) => all.push(completion));
        return all.sort((a, b) => a.prompt - b.prompt || a.sample - b.sample);
      };
      const gap = async (completions: readonly SampledCompletion[], of: Policy | null) => {
        const texts = completions.map(({ prompt, ids }) => ({
          promptIds: prompts[prompt]!,
          completionIds: ids,
        }));
        const { logprobs } = await model.score(packSequences(texts), { policy: of });
        const theirs = completions.flatMap((one) => [...one.logprobs]);
        return theirs.reduce((sum, value, i) => sum + Math.abs(value - logprobs[i]!), 0) / theirs.length;
      };
      const before = await sampled(1);
      expect(before.map(({ prompt, sample }) => [prompt, sample])).toEqual([[0, 0], [0, 1], [1, 0], [1, 1]]); // prettier-ignore
      expect(await gap(before, policy)).toBeLessThan(0.1);
      // The same prompts again, with other weights under the same policy.
      await trainApart(policy, { model, modelName: '', prompts, temperature: 1, maxNewTokens: 64 });
      const after = await sampled(2);
      const [ofPolicy, ofBase] = [await gap(after, policy), await gap(after, null)];
      expect(ofPolicy).toBeLessThan(0.1);
      expect(ofBase).toBeGreaterThan(2.5 * ofPolicy);
      await sampler.dispose();
    });
  });

  test('at another temperature its default log-probs are told apart, or it gives processed ones', async () => {
    await withModel(async (model, policy) => {
      const told: string[] = [];
      const sampler = samplerOf(model, policy, told, 0.5);
      const refused = await sampler.open().then(
        () => null,
        (error: Error) => error.message,
      );
      if (refused !== null) expect(refused).toMatch(/start it with --logprobs-mode processed_logprobs/);
      await sampler.dispose();
    });
  });

  test('what it refuses comes back as a sentence', async () => {
    const server = new Server(url!, null, 1);
    await expect(server.load('no-such', join(root, 'absent'))).rejects.toMatchObject({ kind: 'passing' });
    await expect(
      server.complete({ model: 'absent', prompt: [1], max_tokens: 1 }, 10_000),
    ).rejects.toMatchObject({
      kind: 'adapter',
    });
    const { name } = await server.models();
    await expect(
      server.complete({ model: name, prompt: [1], max_tokens: 1_000_000 }, 10_000),
    ).rejects.toMatchObject({ kind: 'refused' });
    await server.close();
  });

  test('a run of 2 steps', async () => {
    const events: TrainEvent[] = [];
    const out = join(root, 'run');
    const run = await train(
      {
        ...{
          model: realModel('bfloat16'),
          dataset: 'tiny',
          promptTemplate: '{problem}',
          reward: 'acc',
          maxSteps: 2,
        },
        ...{ promptsPerStep: 1, numGenerations: 4, maxCompletionLength: 16, learningRate: 5e-4, loraRank: 8 },
        ...{
          evalProblems: 0,
          evalSampledProblems: 0,
          saveSteps: 0,
          sampler: { type: 'vllm', servers: [url!] },
        },
      },
      { out, onEvent: (event) => void events.push(event) },
    );
    await run.result();
    const metrics = metricsOf(out) as Record<string, number>[];
    expect(metrics).toHaveLength(2);
    for (const line of metrics) expect(line['sampling/mismatch_kl'] ?? 0).toBeLessThan(0.05);
    expect(readFileSync(join(out, 'config.json'), 'utf8')).toContain('token_truncate');
  });
});
