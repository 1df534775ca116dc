/** A decoder that stays open: requests that arrive, end, are cancelled or refused while others decode. */
import { createEngine } from '../../src/engine/engine';
import type { Decoder, Engine, GenerateRequest, Model, NewTokens, Policy } from '../../src/engine/types';
import { failureOf } from '../helpers/engine-calls';
import { randomModel } from '../helpers/random-model';

let engine: Engine;
let model: Model;
let policy: Policy;
beforeAll(async () => {
  engine = await createEngine({ device: 'cpu', threads: 2 });
  model = await engine.loadModel(randomModel());
  policy = await model.createPolicy({ kind: 'lora', rank: 4, alpha: 8, seed: 1n });
});
afterAll(() => engine.dispose());

const prompt = (length: number, seed = 0) =>
  Int32Array.from({ length }, (_, t) => (7 * t + 11 * seed + 3) % 40);
const request = (seed: number, changes: Partial<GenerateRequest> = {}): GenerateRequest => ({
  promptIds: prompt(3 + seed, seed),
  numSamples: 1 + (seed % 3),
  seed: BigInt(seed),
  maxNewTokens: 10 + 5 * seed,
  stopIds: Int32Array.of(1),
  policy: seed % 2 ? policy : null,
  ...changes,
});
const opened = (changes: object = {}): Promise<Decoder> =>
  model.openDecoder({ policies: [null, policy], positions: 128, ...changes });
const turn = () => new Promise((done) => setImmediate(done));

test('requests that arrive one after another get the tokens that generate gives, whole and in pieces', async () => {
  const requests = [0, 1, 2, 3, 4, 5].map((seed) => request(seed));
  const { sequences: together } = await model.generate(requests);
  const pieces = requests.map(() => new Map<number, number[]>());
  await using decoder = await opened();
  const added = [];
  for (const [i, one] of requests.entries()) {
    const onTokens = ({ sample, ids, logprobs }: NewTokens) => {
      expect(logprobs).toHaveLength(ids.length);
      pieces[i]!.set(sample, [...(pieces[i]!.get(sample) ?? []), ...ids]);
    };
    added.push(decoder.add(one, { onTokens }));
    await turn();
  }
  expect(added.map(({ id }) => id)).toEqual([0, 1, 2, 3, 4, 5]);
  for (const { id, sequences } of added) {
    const own = await sequences;
    expect(own).toEqual(together.filter((sequence) => sequence.request === id));
    expect(own.map(({ ids }) => [...ids])).toEqual(own.map(({ sample }) => pieces[id]!.get(sample)));
  }
  const stats = await decoder.close();
  expect(stats.newTokens).toBe(together.reduce((sum, { ids }) => sum + ids.length, 0));
  expect(stats.promptTokens).toBe(requests.reduce((sum, { promptIds }) => sum + promptIds.length, 0));
  expect(await decoder.close()).toBe(stats);
});

test('closing answers what was added first; then nothing more is taken, and the engine goes on', async () => {
  const decoder = await opened();
  const { sequences } = decoder.add(request(4));
  const memory = engine.memory();
  const closing = decoder.close();
  expect(() => decoder.add(request(1))).toThrow(expect.objectContaining({ code: 'DISPOSED' }));
  expect(await sequences).toHaveLength(2);
  expect((await closing).newTokens).toBeGreaterThan(0);
  expect((await memory).engineBytes).toBeGreaterThan(0);
  decoder.cancel(0);
});

test('one request is cancelled, by its number or a signal, and the others are not', async () => {
  const slow = await engine.loadModel(
    randomModel({ vocabSize: 2048, hiddenSize: 128, intermediateSize: 256, numLayers: 4 }),
  );
  const short = request(0, { maxNewTokens: 40, stopIds: new Int32Array(0) });
  const endless = { ...short, maxNewTokens: 1900 };
  const { sequences: whole } = await slow.generate([short]);
  await using decoder = await slow.openDecoder({ positions: 2048, maxSlots: 2 });
  const control = new AbortController();
  const ended = decoder.add(endless, { onTokens: () => decoder.cancel(ended.id) });
  const aborted = decoder.add(endless, { onTokens: () => control.abort(), signal: control.signal });
  const waiting = decoder.add(endless, { signal: AbortSignal.abort() });
  const kept = decoder.add(short);
  for (const { sequences } of [ended, aborted, waiting]) {
    const [sequence] = await sequences;
    expect(sequence!.finish).toBe('cancelled');
    const same = Math.min(40, sequence!.ids.length);
    expect(sequence!.ids.subarray(0, same)).toEqual(whole[0]!.ids.subarray(0, same));
  }
  expect(await kept.sequences).toMatchObject([{ ids: whole[0]!.ids, finish: 'length' }]);
  decoder.cancel(kept.id);
  decoder.cancel(99);
});

test('a request that is not allowed is refused alone, and what a callback throws ends its request only', async () => {
  const gone = await model.createPolicy({ kind: 'lora', rank: 2, alpha: 4, seed: 2n });
  const other = await model.createPolicy({ kind: 'lora', rank: 2, alpha: 4, seed: 3n });
  await gone.dispose();
  await using decoder = await opened();
  const tooLong = decoder.add(request(1, { maxNewTokens: 126 }));
  const fine = decoder.add(request(2));
  const unknownIds = decoder.add(request(2, { promptIds: Int32Array.of(4000) }));
  const disposed = decoder.add(request(2, { policy: gone }));
  const notOpened = decoder.add(request(2, { policy: other }));
  const thrown = decoder.add(request(5), {
    onTokens() {
      throw new RangeError('my own');
    },
  });
  await expect(tooLong.sequences).rejects.toMatchObject({
    code: 'BAD_ARGUMENT',
    message: expect.stringMatching(
      /request 0: a prompt of 4 tokens and maxNewTokens 126 .* 128 positions/,
    ) as string,
  });
  await expect(unknownIds.sequences).rejects.toMatchObject({ code: 'BAD_ARGUMENT' });
  await expect(disposed.sequences).rejects.toMatchObject({ code: 'DISPOSED' });
  await expect(notOpened.sequences).rejects.toMatchObject({ code: 'BAD_ARGUMENT' });
  await expect(thrown.sequences).rejects.toThrow(new RangeError('my own'));
  expect(await fine.sequences).toHaveLength(3);
  const wrong = (changes: object) => () => decoder.add(request(1, changes));
  expect(wrong({ maxNewToken: 3 })).toThrow(/no option maxNewToken; did you mean `maxNewTokens`/);
  expect(wrong({ maxNewTokens: 'many' })).toThrow(/maxNewTokens/);
  expect(() => decoder.add(request(1), { onToken: () => undefined } as object)).toThrow(/no option onToken/);
});

test('a conversation goes on from what was kept, with the same tokens', async () => {
  const first = request(0, { promptIds: prompt(30), maxNewTokens: 12, stopIds: new Int32Array(0) });
  const { sequences: said } = await model.generate([first]);
  const second = { ...first, promptIds: Int32Array.of(...first.promptIds, ...said[0]!.ids, 5, 6, 7) };
  const { sequences: whole } = await model.generate([second]);
  await using decoder = await opened({ keepBytes: 2 ** 20 });
  await decoder.add(first).sequences;
  const [next] = await decoder.add(second).sequences;
  expect(next!.ids).toEqual(whole[0]!.ids);
  expect(await decoder.close()).toMatchObject({ keptTokens: 41, promptTokens: 30 + 45 - 41 });
});

test('what is added just before the decoder is aborted is cancelled with the rest', async () => {
  const control = new AbortController();
  const decoder = await opened({ signal: control.signal, maxSlots: 1 });
  const long = { maxNewTokens: 100, stopIds: new Int32Array(0) };
  const first = await new Promise<ReturnType<typeof decoder.add>>((resolve) => {
    let begun = false;
    const added = decoder.add(request(0, { ...long, numSamples: 1 }), {
      onTokens: () => {
        if (!begun) resolve(added);
        begun = true;
      },
    });
  });
  // The engine is in the middle of a step, so it has not looked for the second yet.
  const second = decoder.add(request(1, { ...long, numSamples: 2 }));
  control.abort();
  expect((await first.sequences).length).toBe(1);
  expect(await second.sequences).toMatchObject([{ finish: 'cancelled' }, { finish: 'cancelled' }]);
  await expect(decoder.close()).rejects.toMatchObject({ code: 'CANCELLED' });
});

test('options that cannot be, a disposed engine, an aborted decoder', async () => {
  expect(await failureOf(() => opened({ positions: 0 }))).toMatchObject({ code: 'BAD_ARGUMENT' });
  expect(await failureOf(() => opened({ position: 8 }))).toMatchObject({ code: 'BAD_ARGUMENT' });
  expect(await failureOf(() => opened({ policies: [] }))).toMatchObject({ code: 'BAD_ARGUMENT' });
  expect(await failureOf(() => opened({ keepBytes: -1 }))).toMatchObject({ code: 'BAD_ARGUMENT' });
  const control = new AbortController();
  const decoder = await opened({ signal: control.signal });
  const { sequences } = decoder.add(request(1, { maxNewTokens: 100, stopIds: new Int32Array(0) }));
  control.abort();
  expect(await sequences).toMatchObject([{ finish: 'cancelled' }, { finish: 'cancelled' }]);
  await expect(decoder.close()).rejects.toMatchObject({ code: 'CANCELLED' });
  expect(() => decoder.add(request(1))).toThrow(expect.objectContaining({ code: 'DISPOSED' }));

  const other = await createEngine({ device: 'cpu', threads: 1 });
  const idle = await (await other.loadModel(randomModel())).openDecoder({ positions: 64 });
  // It may end by itself, or with the engine.
  await Promise.allSettled([idle.close(), other.dispose()]);
  const open = await (async () => {
    const third = await createEngine({ device: 'cpu', threads: 1 });
    const opened = await (await third.loadModel(randomModel())).openDecoder({ positions: 64 });
    await third.dispose();
    return opened;
  })();
  expect(await failureOf(() => open.close())).toMatchObject({ code: 'DISPOSED' });
});
