import type { GeneratedSequence, GenerateRequest, Model, Policy } from '../../src/engine/types';
import { adapterDirectory, maxDifference, modelDirectory, readJson, withEngine } from '../helpers/fixtures';

interface GreedyCase {
  model: string;
  adapter: string | null;
  prompt: number[];
  stop: number;
  repetitionPenalty: number;
  maxNewTokens: number;
  ids: number[];
}
const GREEDY = readJson<GreedyCase[]>('decode/greedy.json');

describe("greedy decoding equals transformers' generate", () => {
  const groups = [...new Set(GREEDY.map(({ model, adapter }) => `${model} ${adapter ?? 'base'}`))];
  // Both sides' scores agree to 1e-5; the fixtures keep every choice at least 2e-3 from a tie.
  test.each(groups)('%s', async (group) => {
    const chosen = GREEDY.filter(({ model, adapter }) => `${model} ${adapter ?? 'base'}` === group);
    await withEngine(async (engine) => {
      const model = await engine.loadModel(modelDirectory(chosen[0]!.model), { dtype: 'float32' });
      const { adapter } = chosen[0]!;
      const policy = adapter === null ? null : await model.loadAdapter(adapterDirectory(adapter));
      const { sequences } = await model.generate(
        chosen.map((one) => ({
          promptIds: Int32Array.from(one.prompt),
          seed: 0n,
          maxNewTokens: one.maxNewTokens,
          stopIds: Int32Array.of(one.stop),
          sampling: { temperature: 0, repetitionPenalty: one.repetitionPenalty },
          policy,
        })),
      );
      expect(sequences.map(({ ids }) => [...ids])).toEqual(chosen.map(({ ids }) => ids));
      expect(sequences.map(({ finish }) => finish)).toEqual(
        chosen.map(({ ids, stop }) => (ids.at(-1) === stop ? 'stop' : 'length')),
      );
    });
  });
});

function packGenerated(requests: GenerateRequest[], generated: GeneratedSequence[]) {
  const rows = generated.map(({ request, ids }) => [...requests[request]!.promptIds, ...ids]);
  const offsets = [0];
  for (const row of rows) offsets.push(offsets.at(-1)! + row.length);
  return {
    ids: Int32Array.from(rows.flat()),
    offsets: Int32Array.from(offsets),
    promptLengths: Int32Array.from(generated, ({ request }) => requests[request]!.promptIds.length),
  };
}

const flat = (generated: GeneratedSequence[], key: 'logprobs' | 'entropies'): number[] =>
  generated.flatMap((sequence) => [...sequence[key]]);

async function withModel(use: (model: Model, policy: Policy) => Promise<void>): Promise<void> {
  await withEngine(async (engine) => {
    const model = await engine.loadModel(modelDirectory('tied-kv2'), { dtype: 'float32' });
    await use(model, await model.loadAdapter(adapterDirectory('all-r4')));
  });
}

/** Requests of different lengths, policies, sampling options and lives. */
function mixedRequests(policy: Policy): GenerateRequest[] {
  return [3, 11, 1, 26, 7].map((length, i) => ({
    promptIds: Int32Array.from({ length }, (_, t) => 2 + ((t * 31 + i * 17) % 90)),
    numSamples: 3,
    seed: 77n + BigInt(i),
    maxNewTokens: 20 + 9 * i,
    stopIds: Int32Array.of(1, 5),
    sampling: [{ temperature: 1 }, { temperature: 0.8, topK: 30 }, { temperature: 1.2, topP: 0.9 }][i % 3]!,
    policy: i % 2 ? policy : null,
  }));
}

describe('sampler and scorer', () => {
  // Decoding and scoring are two float32 programs for one function: their roundings add.
  test.each([1, 0.7])(
    'the log-probs of sampled tokens are those of score, temperature %d',
    async (temperature) => {
      await withModel(async (model, policy) => {
        const requests = mixedRequests(policy).map((one) => ({ ...one, policy, sampling: { temperature } }));
        const { sequences } = await model.generate(requests);
        const scored = await model.score(packGenerated(requests, sequences), { policy, temperature });
        expect(maxDifference(flat(sequences, 'logprobs'), scored.logprobs)).toBeLessThan(1e-4);
        expect(maxDifference(flat(sequences, 'entropies'), scored.entropies)).toBeLessThan(1e-4);
      });
    },
  );

  // bfloat16 rounds every activation to three digits, in another place on each path.
  test('in bfloat16 they differ by less than 0.02 on average', async () => {
    await withEngine(async (engine) => {
      const model = await engine.loadModel(modelDirectory('untied-kv1'), { dtype: 'bfloat16' });
      const policy = await model.loadAdapter(adapterDirectory('all-r2'));
      const requests = [3, 11, 1, 26].map((length, i) => ({
        promptIds: Int32Array.from({ length }, (_, t) => 2 + ((t * 31 + i * 17) % 60)),
        numSamples: 4,
        seed: BigInt(i),
        maxNewTokens: 40,
        stopIds: Int32Array.of(1),
        policy,
      }));
      const { sequences } = await model.generate(requests);
      const scored = await model.score(packGenerated(requests, sequences), { policy });
      const sampled = flat(sequences, 'logprobs');
      const gaps = sampled.map((logprob, t) => Math.abs(logprob - scored.logprobs[t]!));
      expect(gaps.reduce((a, b) => a + b, 0) / gaps.length).toBeLessThan(0.02);
    });
  });

  test('greedy log-probs are those of temperature 1', async () => {
    await withModel(async (model, policy) => {
      const requests = mixedRequests(policy).map((one) => ({ ...one, policy, sampling: { temperature: 0 } }));
      const { sequences } = await model.generate(requests);
      const scored = await model.score(packGenerated(requests, sequences), { policy });
      expect(maxDifference(flat(sequences, 'logprobs'), scored.logprobs)).toBeLessThan(1e-4);
    });
  });
});

describe('a sequence alone and in any batch', () => {
  // The same float32 program on other row counts: a GEMM may pick another order of sums.
  const LOGPROBS = 1e-5;

  test.each([1, 2, 4, 7, 64])('%d slots: same tokens, log-probs to 1e-5', async (maxSlots) => {
    await withModel(async (model, policy) => {
      const requests = mixedRequests(policy);
      const batch = await model.generate(requests, { maxSlots });
      expect(batch.sequences).toHaveLength(15);
      expect(batch.stats.peakSlots).toBeLessThanOrEqual(maxSlots);
      for (const [i, request] of requests.entries())
        for (let sample = 0; sample < 3; sample++) {
          const alone = await model.generate([{ ...request, numSamples: 1, firstSample: sample }]);
          const among = batch.sequences[i * 3 + sample]!;
          expect(among).toMatchObject({ request: i, sample });
          expect([...among.ids]).toEqual([...alone.sequences[0]!.ids]);
          expect(maxDifference(among.logprobs, alone.sequences[0]!.logprobs)).toBeLessThan(LOGPROBS);
        }
    });
  });

  test('other neighbours, another order', async () => {
    await withModel(async (model, policy) => {
      const requests = mixedRequests(policy);
      const forward = (await model.generate(requests, { maxSlots: 4 })).sequences;
      const backward = (await model.generate([...requests].reverse(), { maxSlots: 4 })).sequences;
      for (const sequence of forward) {
        const twin = backward[(requests.length - 1 - sequence.request) * 3 + (sequence.sample % 3)]!;
        expect([...twin.ids]).toEqual([...sequence.ids]);
        expect(maxDifference(twin.logprobs, sequence.logprobs)).toBeLessThan(LOGPROBS);
      }
    });
  });
});
