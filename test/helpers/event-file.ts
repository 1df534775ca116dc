/** Reads TensorBoard's event files back into plain values. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readFields, unframe } from '../../src/run/tensorboard/protobuf';

export interface EventValue {
  tag: string;
  scalar?: number;
  histogram?: { min: number; max: number; num: number; sum: number; limits: number[]; counts: number[] };
  text?: string;
  /** What the hparams plugin reads: the settings of a session's start, or the status of its end. */
  hparams?: Record<string, string | number | boolean>;
  status?: number;
}

export interface DecodedEvent {
  wallTime: number;
  step: number;
  fileVersion?: string;
  sessionStart?: true;
  values: EventValue[];
}

const all = (message: Buffer, field: number) =>
  [...readFields(message)].filter(({ number }) => number === field).map(({ value }) => value);
const first = (message: Buffer, field: number) => all(message, field)[0];
const inner = (message: Buffer, field: number) => first(message, field) as Buffer | undefined;
const double = (message: Buffer, field: number) => inner(message, field)?.readDoubleLE() ?? 0;

function doubles(message: Buffer, field: number): number[] {
  const packed = inner(message, field) ?? Buffer.alloc(0);
  return Array.from({ length: packed.length / 8 }, (_, i) => packed.readDoubleLE(8 * i));
}

const decodeHistogram = (message: Buffer): NonNullable<EventValue['histogram']> => ({
  min: double(message, 1),
  max: double(message, 2),
  num: double(message, 3),
  sum: double(message, 4),
  limits: doubles(message, 6),
  counts: doubles(message, 7),
});

function decodeSetting(value: Buffer): string | number | boolean {
  const text = inner(value, 3);
  if (text !== undefined) return text.toString();
  const truth = first(value, 4);
  return truth === undefined ? double(value, 2) : truth === 1;
}

function decodeHparams(content: Buffer): Pick<EventValue, 'hparams' | 'status'> {
  const [start, end] = [inner(content, 3), inner(content, 4)];
  if (end !== undefined) return { status: first(end, 1) as number };
  if (start === undefined) return {};
  const entries = all(start, 1) as Buffer[];
  return {
    hparams: Object.fromEntries(
      entries.map((entry) => [inner(entry, 1)!.toString(), decodeSetting(inner(entry, 2)!)]),
    ),
  };
}

function decodeValue(message: Buffer): EventValue {
  const tag = inner(message, 1)!.toString();
  const [scalar, histogram, tensor, metadata] = [2, 5, 8, 9].map((field) => inner(message, field));
  if (scalar !== undefined) return { tag, scalar: scalar.readFloatLE() };
  if (histogram !== undefined) return { tag, histogram: decodeHistogram(histogram) };
  const plugin = inner(metadata!, 1)!;
  if (inner(plugin, 1)!.toString() === 'text') return { tag, text: inner(tensor!, 8)!.toString() };
  return { tag, ...decodeHparams(inner(plugin, 2)!) };
}

export function decodeEvents(file: Buffer): DecodedEvent[] {
  return [...unframe(file)].map((event) => {
    const [version, summary] = [inner(event, 3), inner(event, 5)];
    return {
      wallTime: double(event, 1),
      step: (first(event, 2) as number | undefined) ?? 0,
      ...(version && { fileVersion: version.toString() }),
      ...(first(event, 7) !== undefined && { sessionStart: true as const }),
      values: summary === undefined ? [] : (all(summary, 1) as Buffer[]).map(decodeValue),
    };
  });
}

/** The events of a run: those of all its files, of which a TensorBoard that was just started sees each. */
export function eventsOf(run: string): DecodedEvent[] {
  const folder = join(run, 'tensorboard');
  const names = readdirSync(folder).sort();
  return names.flatMap((name) => decodeEvents(readFileSync(join(folder, name))));
}

/** [step, value] of each point of a tag. */
export const pointsOf = (events: readonly DecodedEvent[], tag: string): [step: number, value: EventValue][] =>
  events.flatMap(({ step, values }) =>
    values.filter((value) => value.tag === tag).map((value) => [step, value] as [number, EventValue]),
  );
