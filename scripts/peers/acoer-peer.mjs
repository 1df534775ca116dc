// Acoer's engine. Usage: acoer-peer.mjs MODEL_FOLDER DTYPE MEMORY_LIMIT_BYTES|0 THREADS
import { readFileSync, writeFileSync } from 'node:fs';
import acoer from '../../dist/index.js';
import { answer } from './answer.mjs';

const [folder, dtype, memoryLimitBytes, threads] = process.argv.slice(2);
const engine = await acoer.createEngine({
  device: 'cpu',
  threads: Number(threads),
  memoryLimitBytes: Number(memoryLimitBytes),
});
const model = await engine.loadModel(folder, { dtype });
const adapter = await model.createPolicy({ kind: 'lora', rank: 16, alpha: 32, seed: 1n });

const ids = (count) =>
  Int32Array.from({ length: count }, () => Math.floor(Math.random() * model.info.vocabSize));
const timed = async (work) => {
  const started = performance.now();
  await work();
  return (performance.now() - started) / 1000;
};
const memory = (field) =>
  1024 * Number(new RegExp(`${field}:\\s*(\\d+)`).exec(readFileSync('/proc/self/status', 'utf8'))[1]);

const loadedBytes = memory('VmRSS');

async function rollout({ prompts, promptTokens, group, newTokens, policy }) {
  const requests = Array.from({ length: prompts }, (_, i) => ({
    promptIds: ids(promptTokens),
    numSamples: group,
    seed: BigInt(i + 1),
    maxNewTokens: newTokens,
    stopIds: new Int32Array(),
    ...(policy && { policy }),
  }));
  return model.generate(requests, { maxSlots: prompts * group });
}

/** One sequence of `tokens` tokens after a prompt of one, forward and backward. */
async function pass(batch) {
  const { logprobs } = await adapter.forward(batch);
  await adapter.backward(logprobs.map((_, i) => Math.sin(i) / logprobs.length));
}

const packed = (sequences) => {
  const lengths = sequences.map(({ prompt, completion }) => prompt.length + completion.length);
  const offsets = [0];
  for (const length of lengths) offsets.push(offsets.at(-1) + length);
  return {
    ids: Int32Array.from(sequences.flatMap(({ prompt, completion }) => [...prompt, ...completion])),
    offsets: Int32Array.from(offsets),
    promptLengths: Int32Array.from(sequences, ({ prompt }) => prompt.length),
  };
};

await answer({
  ceilings: () => engine.measureCeilings(dtype),

  async decode({ batch, prompts, context, steps, lora = false }) {
    const policy = lora ? adapter : undefined;
    const count = Math.min(prompts, batch);
    const load = { prompts: count, promptTokens: context, group: batch / count, newTokens: steps, policy };
    const { stats } = await rollout(load);
    return { seconds: stats.decodeMs / 1000 / stats.decodeSteps };
  },

  async prefill({ tokens }) {
    // A prompt's last token is computed with the first decode step.
    const { stats } = await rollout({ prompts: 1, promptTokens: tokens + 1, group: 1, newTokens: 1 });
    return { seconds: stats.prefillMs / 1000 };
  },

  async train({ tokens }) {
    const batch = packed([{ prompt: ids(1), completion: ids(tokens) }]);
    writeFileSync('/proc/self/clear_refs', '5');
    const seconds = await timed(() => pass(batch));
    const bytes = memory('VmHWM') - loadedBytes;
    await adapter.zeroGradients();
    return { seconds, bytes };
  },

  /** Medians of whole steps: group sampling, one pass, one update. */
  async step({ prompts, promptTokens, group, newTokens, steps }) {
    const seconds = [];
    for (let i = 0; i <= steps; i++) {
      seconds.push(
        await timed(async () => {
          const { sequences } = await rollout({ prompts, promptTokens, group, newTokens, policy: adapter });
          const prompt = ids(promptTokens);
          await pass(packed(sequences.map((sequence) => ({ prompt, completion: sequence.ids }))));
          await adapter.step({ learningRate: 1e-6, maxGradNorm: 1 });
        }),
      );
    }
    const sorted = seconds.slice(1).sort((a, b) => a - b);
    return { seconds: sorted[sorted.length >> 1], tokens: prompts * group * newTokens };
  },
});
await engine.dispose();
