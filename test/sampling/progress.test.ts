/** Progress of a sampling: the right sequences and counts, also when its requests are cut up and repeated. */
import type { GenerateProgress, GenerateRequest, Model } from '../../src/engine/types';
import { DecodeTracker, generateFitting, SlotLimit, type SampleProgress } from '../../src/sampling';
import type { Prompt } from '../../src/base/types';
import { FakeEngine, statsOf } from '../helpers/fake-engine';
import { FAKE_IDS } from '../helpers/fake-tokenizer';

const prompt = (index: number): Prompt =>
  ({
    index,
    problem: { id: `p${index}` },
    ids: Int32Array.of(1, 2),
    thinkOpened: false,
  }) as unknown as Prompt;
const report = (promptTokens: number, ...inFlight: [number, number, number][]): SampleProgress => ({
  promptTokens,
  inFlight: inFlight.map(([position, sample, tokens]) => ({ prompt: position, sample, tokens })),
});

describe('a tracker', () => {
  test('adds up what has ended and what is in flight, under the names of the data', () => {
    const tracker = new DecodeTracker();
    tracker.begin([prompt(7), prompt(7), prompt(9)]);
    tracker.report(report(6, [0, 0, 5], [1, 0, 6], [2, 3, 7]));
    expect(tracker.decoding).toMatchObject({ tokens: 18 });
    expect(tracker.decoding.sequences).toEqual([
      { prompt: 7, problemId: 'p7', sample: 0, tokens: 5 },
      { prompt: 7, problemId: 'p7', sample: 0, tokens: 6 },
      { prompt: 9, problemId: 'p9', sample: 3, tokens: 7 },
    ]);
    tracker.ended({ prompt: 1, sample: 0, tokens: 8 });
    expect(tracker.decoding.tokens).toBe(5 + 8 + 7);
    // Some samplers report what has ended meanwhile.
    tracker.report(report(6, [0, 0, 9], [1, 0, 8], [2, 3, 9]));
    expect(tracker.decoding.tokens).toBe(9 + 8 + 9);
    expect(tracker.decoding.tokensPerSecond).toBeGreaterThan(0);
    tracker.ended({ prompt: 0, sample: 0, tokens: 10 });
    tracker.ended({ prompt: 2, sample: 3, tokens: 10 });
    tracker.begin([prompt(11)]);
    tracker.report(report(2, [0, 0, 1]));
    expect(tracker.decoding).toMatchObject({ tokens: 29, sequences: [{ prompt: 11, problemId: 'p11' }] });
  });

  test('knows a report in which nothing has moved', () => {
    const tracker = new DecodeTracker();
    tracker.begin([prompt(0), prompt(1)]);
    expect(tracker.report(report(0))).toBe(false);
    expect(tracker.report(report(4))).toBe(true);
    expect(tracker.report(report(4))).toBe(false);
    expect(tracker.report(report(4, [0, 0, 0]))).toBe(true);
    expect(tracker.report(report(4, [0, 0, 0]))).toBe(false);
    expect(tracker.report(report(4, [0, 0, 8]))).toBe(true);
    expect(tracker.report(report(4, [0, 0, 8], [1, 2, 0]))).toBe(true);
    // Out of memory: generated again from the beginning.
    expect(tracker.report(report(4, [0, 0, 1], [1, 2, 0]))).toBe(true);
    tracker.ended({ prompt: 0, sample: 0, tokens: 9 });
    expect(tracker.report(report(4, [0, 0, 9], [1, 2, 0]))).toBe(false);
  });
});

describe('a generation that is repeated with fewer slots', () => {
  const ask = (digit: number, numSamples: number, firstSample: number): GenerateRequest => ({
    promptIds: Int32Array.of(FAKE_IDS.digit + digit),
    numSamples,
    firstSample,
    seed: BigInt(digit),
    maxNewTokens: 60,
    stopIds: Int32Array.of(FAKE_IDS.eos),
  });

  test('reports each sequence under its request and sample in the whole, and none that has ended', async () => {
    const model: Model = await new FakeEngine({ slots: 2 }).loadModel();
    const requests = [ask(1, 5, 0), ask(2, 4, 3)];
    const ended = new Map<string, number>();
    const reports: SampleProgress[] = [];
    const lengths = new Map<string, number>();
    for (const { request, sample, ids } of (
      await new FakeEngine().loadModel().then((m) => m.generate(requests))
    ).sequences) {
      lengths.set(`${request} ${sample}`, ids.length);
    }
    await generateFitting(model, requests, new SlotLimit(8), {
      onSequence: ({ request, sample, ids }) => ended.set(`${request} ${sample}`, ids.length),
      onProgress: (progress) => {
        reports.push(progress);
        for (const one of progress.inFlight) {
          const key = `${one.prompt} ${one.sample}`;
          expect(ended.has(key)).toBe(false);
          expect(one.tokens).toBe(Math.floor(lengths.get(key)! / 2));
        }
      },
    });
    expect(ended).toEqual(lengths);
    // Four of nine end before memory runs out; then half of the five that are left are decoded together.
    expect(reports.map(({ inFlight }) => inFlight.length)).toEqual([8, 2]);
  });

  test('a fake cut by hand: pieces of one request keep their own numbers', async () => {
    // Sample 1 ends, then memory runs out: samples 0 and 2 to 3 remain, as two pieces.
    let calls = 0;
    const seen: SampleProgress[] = [];
    const model = {
      generate: async (requests, options) => {
        const inFlight = (...values: number[]): GenerateProgress => ({
          ended: 0,
          total: 4,
          promptTokens: 1,
          inFlight: Int32Array.from(values),
        });
        const end = (request: number, sample: number) =>
          options!.onSequence!({
            request,
            sample,
            ids: new Int32Array(1),
            logprobs: new Float64Array(1),
            entropies: new Float64Array(1),
            finish: 'stop',
          });
        if (calls++ === 0) {
          options!.onProgress!(inFlight(0, 0, 4, 0, 1, 4));
          end(0, 1);
          throw Object.assign(new Error('full'), { code: 'OUT_OF_MEMORY' });
        }
        expect(requests.map(({ firstSample, numSamples }) => [firstSample, numSamples])).toEqual([
          [10, 1],
          [12, 2],
        ]);
        options!.onProgress!(inFlight(0, 0, 2, 1, 1, 3));
        for (const [request, sample] of [
          [0, 0],
          [1, 0],
          [1, 1],
        ] as const) {
          end(request, sample);
        }
        return { sequences: [], stats: statsOf(3) };
      },
    } as Pick<Model, 'generate'> as Model;
    await generateFitting(model, [ask(1, 4, 10)], new SlotLimit(4), {
      onSequence: () => undefined,
      onProgress: (progress) => seen.push(progress),
    });
    expect(seen).toEqual([report(1, [0, 0, 4], [0, 1, 4]), report(1, [0, 0, 2], [0, 3, 3])]);
  });
});
