/**
 * TensorBoard's event files: the same bytes as TensorBoard's own protobuf classes and record writer make of the
 * same inputs, and what its readers see in them (scripts/fixtures/tensorboard_events.py).
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  EventFile,
  experimentValue,
  histogramValue,
  readEvents,
  scalarValue,
  sessionEndValue,
  sessionStartValue,
  summaryEvent,
  textValue,
} from '../../src/run';
import { readFields, crc32c, frame, unframe } from '../../src/run/tensorboard/protobuf';
import { decodeEvents, pointsOf } from '../helpers/event-file';

const FIXTURES = join(__dirname, '..', 'fixtures', 'tensorboard');
const readJson = (name: string): unknown => JSON.parse(readFileSync(join(FIXTURES, name), 'utf8'));

interface Inputs {
  begun: number;
  ended: number;
  hparams: Record<string, string | number | boolean>;
  metricTags: string[];
  events: {
    wallTime: number;
    step: number;
    scalars: Record<string, number>;
    histograms: Record<string, number[]>;
    texts: Record<string, string>;
  }[];
}

interface Read {
  scalars: Record<string, [wallTime: number, step: number, value: number][]>;
  histograms: Record<string, [step: number, histogram: Record<string, unknown>][]>;
  texts: Record<string, [step: number, shown: { text: string; html: string }][]>;
  hparams: Record<string, string | number | boolean>;
  metricTags: string[];
  status: string;
}

const inputs = readJson('inputs.json') as Inputs;
const read = readJson('read.json') as Read;
const golden = readFileSync(join(FIXTURES, 'events.bin'));

const root = mkdtempSync(join(tmpdir(), 'acoer-events-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;

function newFolder(): { folder: string; staged: string } {
  const folder = join(root, `run-${folders++}`);
  mkdirSync(folder);
  return { folder, staged: `${folder}-staged` };
}

const newest = (folder: string) => join(folder, readdirSync(folder).sort().at(-1)!);

/** The event of fixed values. */
const eventOf = ({ wallTime, step, scalars, histograms, texts }: Inputs['events'][number]): Buffer =>
  summaryEvent(wallTime, step, [
    ...Object.entries(scalars).map(([tag, value]) => scalarValue(tag, value)),
    ...Object.entries(histograms).map(([tag, values]) => histogramValue(tag, values)),
    ...Object.entries(texts).map(([tag, text]) => textValue(tag, text)),
  ]);

function write(): Buffer {
  const { folder, staged } = newFolder();
  const { begun, ended, hparams, metricTags, events } = inputs;
  const settings = [experimentValue(begun, hparams, metricTags), sessionStartValue(begun, hparams)];
  const file = new EventFile(folder, staged, begun, [summaryEvent(begun, 0, settings)]);
  for (const event of events) file.append(eventOf(event));
  file.append(summaryEvent(ended, 0, [sessionEndValue(ended, 'success')]));
  file.close();
  return readFileSync(newest(folder));
}

describe("against TensorBoard's own classes", () => {
  test('the file has the same bytes', () => {
    const [found, wanted] = [write(), golden].map((file) =>
      [...unframe(file)].map((event) => event.toString('hex')),
    );
    expect(found).toEqual(wanted);
    expect(write().equals(golden)).toBe(true);
  });

  test('every scalar is read at its step, as float32', () => {
    const points = inputs.events.flatMap(({ wallTime, step, scalars }) =>
      Object.entries(scalars).map(([tag, value]) => ({ tag, point: [wallTime, step, Math.fround(value)] })),
    );
    const wanted: Record<string, unknown[]> = {};
    for (const { tag, point } of points) (wanted[tag] ??= []).push(point);
    expect(read.scalars).toEqual(wanted);
  });

  test('histograms, texts, settings and the end of the session are read back', () => {
    for (const [tag, found] of Object.entries(read.histograms)) {
      const given = inputs.events.filter(({ histograms }) => tag in histograms);
      expect(found.map(([step]) => step)).toEqual(given.map(({ step }) => step));
      found.forEach(([, { num, sum, min, max, bucket }], i) => {
        const values = given[i]!.histograms[tag]!;
        expect({ num, min, max }).toEqual({
          num: values.length,
          min: Math.min(...values),
          max: Math.max(...values),
        });
        expect(sum).toBeCloseTo(values.reduce((a, b) => a + b, 0));
        expect((bucket as number[]).reduce((a, b) => a + b, 0)).toBe(values.length);
      });
    }
    expect(Object.keys(read.histograms).sort()).toEqual(['lengths', 'rewards']);
    expect(read.texts['samples']!.map(([step, { text }]) => [step, text])).toEqual(
      inputs.events.flatMap(({ step, texts }) => Object.values(texts).map((text) => [step, text])),
    );
    expect(read.hparams).toEqual(inputs.hparams);
    expect(read).toMatchObject({ metricTags: inputs.metricTags, status: 'STATUS_SUCCESS' });
  });

  test("our reader reads TensorBoard's file", () => {
    const events = decodeEvents(golden);
    expect(events[0]).toMatchObject({ fileVersion: 'brain.Event:2', wallTime: inputs.begun });
    expect(events[1]!.sessionStart).toBe(true);
    for (const [tag, points] of Object.entries(read.scalars)) {
      const found = pointsOf(events, tag).map(([step, { scalar }]) => [step, scalar]);
      expect(found).toEqual(points.map(([, step, value]) => [step, value]));
    }
    for (const [tag, points] of Object.entries(read.texts)) {
      const found = pointsOf(events, tag).map(([step, { text }]) => [step, text]);
      expect(found).toEqual(points.map(([step, { text }]) => [step, text]));
    }
    expect(pointsOf(events, '_hparams_/session_start_info')[0]![1].hparams).toEqual(inputs.hparams);
  });
});

test('CRC-32C of the check value', () => {
  // RFC 3720, B.4: 32 bytes of zeros, and the usual check string.
  expect(crc32c(Buffer.alloc(32))).toBe(0x8a9136aa);
  expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283);
});

describe('a run that goes on', () => {
  const point = (step: number, value = step) => summaryEvent(1000 + step, step, [scalarValue('x', value)]);
  const pointsIn = (folder: string) =>
    pointsOf(decodeEvents(readFileSync(newest(folder))), 'x').map(([step, { scalar }]) => [step, scalar]);

  function written(steps: number): ReturnType<typeof newFolder> {
    const place = newFolder();
    const file = new EventFile(place.folder, place.staged, 999, []);
    for (let step = 1; step <= steps; step++) file.append(point(step));
    file.close();
    return place;
  }

  test('keeps the chosen events under a later name; the old file is emptied, nothing else is left', () => {
    const { folder, staged } = written(5);
    const old = newest(folder);
    const { begun, steps } = readEvents(folder);
    expect(begun).toBe(999);
    const kept = [...steps].filter(([step]) => step <= 3).map(([, { event }]) => event);
    const file = new EventFile(folder, staged, begun!, kept);
    file.append(point(4, 40));
    file.close();
    expect(newest(folder) > old).toBe(true);
    expect(statSync(old).size).toBe(0);
    expect(readdirSync(root).filter((name) => name.endsWith('-staged'))).toEqual([]);
    expect(pointsIn(folder)).toEqual([
      [1, 1],
      [2, 2],
      [3, 3],
      [4, 40],
    ]);
  });

  test('names are later also within a second, and files of others are left alone', () => {
    const { folder, staged } = written(1);
    writeFileSync(join(folder, 'events.out.tfevents.9999999999.other'), 'theirs');
    for (let i = 0; i < 3; i++) new EventFile(folder, staged, 999, [point(1)]).close();
    const own = readdirSync(folder).filter((name) => name.endsWith('.acoer'));
    expect(new Set(own).size).toBe(4);
    expect(readEvents(folder).steps.size).toBe(1);
    expect(readFileSync(join(folder, 'events.out.tfevents.9999999999.other'), 'utf8')).toBe('theirs');
  });

  test('a record cut off at any byte, or damaged, counts as not written; those before it count', () => {
    const { folder } = written(3);
    const path = newest(folder);
    const whole = readFileSync(path);
    const last = frame(point(3)).length;
    for (let cut = 1; cut <= last; cut++) {
      writeFileSync(path, whole.subarray(0, whole.length - cut));
      expect([...readEvents(folder).steps.keys()]).toEqual([1, 2]);
    }
    for (const place of [whole.length - 1, whole.length - 6, whole.length - last, whole.length - last + 9]) {
      const damaged = Buffer.from(whole);
      damaged[place]! ^= 1;
      writeFileSync(path, damaged);
      expect([...readEvents(folder).steps.keys()]).toEqual([1, 2]);
    }
    writeFileSync(path, '');
    expect(readEvents(folder)).toEqual({ begun: null, steps: new Map() });
  });
});

test('bytes that are no message are refused', () => {
  for (const hex of ['80', 'ff'.repeat(11), '0a05aa', '0b', '09aabb']) {
    expect(() => [...readFields(Buffer.from(hex, 'hex'))]).toThrow('not a protobuf message');
  }
});
