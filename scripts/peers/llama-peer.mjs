// llama.cpp through node-llama-cpp. Usage: llama-peer.mjs MODEL.gguf VOCABULARY THREADS
import { answer } from './answer.mjs';

const [path, vocabulary, threads] = process.argv.slice(2);
const { getLlama } = await import('node-llama-cpp');
const llama = await getLlama({ gpu: false, build: 'never', maxThreads: Number(threads), logLevel: 'error' });
const model = await llama.loadModel({ modelPath: path });
const SAMPLING = { temperature: 1, topK: 0, topP: 1, minP: 0 };
const tokens = (count) =>
  Array.from({ length: count }, () => 300 + Math.floor(Math.random() * (Number(vocabulary) - 2000)));

async function withContext(sequences, contextSize, work) {
  const context = await model.createContext({
    contextSize,
    sequences,
    batchSize: Math.max(512, sequences),
    threads: Number(threads),
    flashAttention: true,
  });
  try {
    return await work(Array.from({ length: sequences }, () => context.getSequence()));
  } finally {
    await context.dispose();
  }
}

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

await answer({
  decode: ({ batch, context, steps }) =>
    withContext(batch, context + steps + 8, async (sequences) => {
      for (const sequence of sequences) await sequence.evaluateWithoutGeneratingNewTokens(tokens(context));
      const streams = sequences.map((sequence) => sequence.evaluate(tokens(1), SAMPLING));
      const seconds = [];
      for (let i = 0; i <= steps; i++) {
        const started = performance.now();
        await Promise.all(streams.map((stream) => stream.next()));
        seconds.push((performance.now() - started) / 1000);
      }
      return { seconds: median(seconds.slice(1)) };
    }),

  prefill: ({ tokens: count }) =>
    withContext(1, count + 8, async ([sequence]) => {
      const started = performance.now();
      await sequence.evaluateWithoutGeneratingNewTokens(tokens(count));
      return { seconds: (performance.now() - started) / 1000 };
    }),
});
process.exit(0);
