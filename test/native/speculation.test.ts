/** Tokens computed beside the last one (`numSpeculativeTokens`): the same draws in fewer steps. */
import { createEngine } from '../../src/engine/engine';
import type { GenerateRequest, GenerateResult, Model, SamplingOptions } from '../../src/engine/types';
import { resolveModel } from '../../src/models';
import { loadTokenizer } from '../../src/tokenizer';

const SEVERAL = 3;
/** The embedded model repeats the steps that it has written, so that a proposal is often right. */
const QUESTIONS = ['6-3-4', '2+7-5', '8-1+3'];

/** Prompts with their steps written once already, several samples of each. */
async function requestsOf(sampling: Partial<SamplingOptions>): Promise<GenerateRequest[]> {
  const { directory } = await resolveModel('tiny');
  const tokenizer = await loadTokenizer(directory);
  return QUESTIONS.map((question, i) => ({
    promptIds: tokenizer.encode(`${question} ${question} ${question}`),
    numSamples: SEVERAL,
    seed: BigInt(i),
    maxNewTokens: 96,
    stopIds: Int32Array.from(tokenizer.eosIds),
    group: i,
    sampling,
  }));
}

async function withTiny(use: (model: Model) => Promise<void>): Promise<void> {
  const { directory } = await resolveModel('tiny');
  // On a card they are the same up to rounding only.
  await using engine = await createEngine({ device: 'cpu', threads: 1 });
  await use(await engine.loadModel(directory));
}

const drawn = ({ sequences }: GenerateResult) =>
  sequences.map(({ ids, logprobs, entropies, finish }) => ({
    ids: [...ids],
    logprobs: [...logprobs],
    entropies: [...entropies],
    finish,
  }));

test.each<[string, Partial<SamplingOptions>]>([
  ['at temperature 1', {}],
  ['greedy', { temperature: 0 }],
  ['with a repetition penalty', { repetitionPenalty: 1.1 }],
  ['from the likeliest tokens', { topK: 5, topP: 0.9 }],
])('%s: the same tokens and log-probs to the bit, in fewer steps', async (_, sampling) => {
  const requests = await requestsOf(sampling);
  await withTiny(async (model) => {
    const plain = await model.generate(requests);
    const faster = await model.generate(requests, { numSpeculativeTokens: 4 });
    expect(drawn(faster)).toEqual(drawn(plain));
    expect(plain.stats).toMatchObject({ proposedTokens: 0, acceptedTokens: 0 });
    const { proposedTokens, acceptedTokens, newTokens, decodeSteps } = faster.stats;
    expect(newTokens).toBe(plain.stats.newTokens);
    expect(decodeSteps).toBeLessThan(plain.stats.decodeSteps);
    expect(acceptedTokens).toBeGreaterThan(0);
    expect(acceptedTokens).toBeLessThanOrEqual(proposedTokens);
  });
});

test('an open decoder gives the same, too', async () => {
  const requests = await requestsOf({});
  await withTiny(async (model) => {
    const plain = await model.generate(requests);
    const decoder = await model.openDecoder({ positions: 256, numSpeculativeTokens: 4 });
    const added = requests.map(({ group: _, ...request }) => decoder.add(request));
    const sequences = (await Promise.all(added.map((one) => one.sequences))).flat();
    const stats = await decoder.close();
    expect(drawn({ sequences, stats })).toEqual(drawn(plain));
    expect(stats.acceptedTokens).toBeGreaterThan(0);
    expect(stats.acceptedTokens).toBeLessThanOrEqual(stats.proposedTokens);
  });
});

test('more sequences than rows are worth it propose nothing', async () => {
  const requests = (await requestsOf({})).map((request) => ({ ...request, numSamples: 8, maxNewTokens: 2 }));
  await withTiny(async (model) => {
    const { stats } = await model.generate(requests, { numSpeculativeTokens: 4 });
    expect(stats).toMatchObject({ proposedTokens: 0, acceptedTokens: 0 });
  });
});
