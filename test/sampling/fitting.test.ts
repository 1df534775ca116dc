/** Where a completion whose logits are not finite stands, when others were made before it. */
import { AcoerError } from '../../src/base/errors';
import type { GenerateCallOptions, GenerateRequest, Model } from '../../src/engine/types';
import { generationError, NonFiniteError } from '../../src/grpo/non-finite';
import { generateFitting, SlotLimit } from '../../src/sampling';

const request = (numSamples: number, firstSample = 0): GenerateRequest => ({
  promptIds: Int32Array.of(1),
  numSamples,
  firstSample,
  seed: 0n,
  maxNewTokens: 4,
  stopIds: Int32Array.of(9),
});

const ended = { ids: Int32Array.of(9), logprobs: new Float64Array(1), entropies: new Float64Array(1) };

test('it is named by its request and sample, however often memory ran out', async () => {
  const calls: (readonly GenerateRequest[])[] = [];
  const generate = (requests: readonly GenerateRequest[], { onSequence }: GenerateCallOptions) => {
    if (calls.push(requests) === 2)
      throw Object.assign(new AcoerError('NOT_FINITE', 'bad'), { request: 1, sample: 1, token: 0 });
    // All of the first request, and the first two samples of the second, have ended.
    for (const [number, sample] of [
      [0, 0],
      [0, 1],
      [1, 0],
      [1, 1],
    ] as const)
      onSequence!({ request: number, sample, finish: 'stop', ...ended });
    throw new AcoerError('OUT_OF_MEMORY', 'full');
  };
  const model = { generate } as unknown as Model;
  const requests = [request(2), request(3), request(3, 4)];
  const sampling = generateFitting(model, requests, new SlotLimit(8), { onSequence: () => undefined });
  const error: unknown = await sampling.catch((thrown: unknown) => thrown);
  expect(calls[1]!.map(({ firstSample, numSamples }) => [firstSample, numSamples])).toEqual([
    [2, 1],
    [4, 3],
  ]);
  expect(error).toMatchObject({ code: 'NOT_FINITE', request: 2, sample: 1 });
  const prompts = requests.map((_, promptIndex) => ({ promptIndex, promptIds: Int32Array.of(1) }));
  const refused = generationError(error, prompts, requests, []);
  expect(refused).toBeInstanceOf(NonFiniteError);
  expect((refused as NonFiniteError).found).toMatchObject({ promptIndex: 2, sample: 5, token: 0 });
});
