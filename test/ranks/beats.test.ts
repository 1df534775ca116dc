/** Who is lost, by what the store reports, and by its silence. */
import { Beats } from '../../src/ranks/beats';
import type { BeatReport, NativeStore } from '../../src/ranks/native';

const members = [0, 1, 2].map((rank) => ({ rank, host: 'a', pid: 100 + rank }));

/** Rank 1 of three, and a store whose answers the test gives. */
function beatsOf(launcherServes: boolean): { beats: Beats; report: (report: BeatReport) => void } {
  let report: (report: BeatReport) => void;
  const store = {
    beat: (_, listener) => (report = listener),
    setOnce: () => new Promise<string>(() => undefined),
    tell: () => undefined,
    close: () => undefined,
  } as Partial<NativeStore> as NativeStore;
  const settings = { own: members[1]!, members, timeoutMs: 6_000, exitWhenStopped: false, launcherServes };
  return { beats: new Beats(store, settings), report: (seen) => report(seen) };
}

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

/** Seconds pass; `seen` is reported in each. */
async function pass(seconds: number, seen: (second: number) => void = () => undefined): Promise<void> {
  for (let second = 1; second <= seconds; second++) {
    await jest.advanceTimersByTimeAsync(1_000);
    seen(second);
  }
}

const telling = '{"step":3,"phase":"train"}';

test('a rank whose beat stays the same is lost after the time-out, and another is not', async () => {
  const { beats, report } = beatsOf(false);
  await pass(12, (second) => report({ beats: [`${second} `, `${second} `, `1 ${telling}`] }));
  expect((beats.lost.reason as Error).message).toMatch(
    /^Rank 2 \(host a, pid 102\) has not been heard for \d s; last at step 3, train\.$/,
  );
});

test('where a rank had told nothing yet, where the one is that misses it is named', async () => {
  const { beats } = beatsOf(false);
  beats.at({ step: 2, phase: 'sample' });
  const lost = beats.neighbourLost(2);
  await pass(4);
  expect((await lost).message).toBe(
    'Rank 2 (host a, pid 102) has ended without a word; last at step 2, sample or before.',
  );
});

test.each([
  [false, /^Rank 0 \(host a, pid 100\) has not been heard for \d s; last seen joining\.$/],
  [true, /^The launcher's store has not answered for \d s\.$/],
])(
  'a silent store is not the silence of a rank that was late before (launcher %s)',
  async (serves, message) => {
    const { beats, report } = beatsOf(serves);
    await pass(4, (second) => report({ beats: [`${second} `, `${second} `, `1 ${telling}`] }));
    await pass(12);
    expect((beats.lost.reason as Error).message).toMatch(message);
  },
);
