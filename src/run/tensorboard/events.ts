/** TensorBoard's messages: Event, Summary and what its histogram, text and hparams plugins expect. */
import {
  bytesField,
  doubleField,
  doublesField,
  floatField,
  intField,
  messageField,
  readFields,
  unlessZero,
} from './protobuf';
import { maximum, minimum } from '../../base/statistics';

/** One `Summary.Value`, as bytes. */
export type SummaryValue = Buffer;

/** Field numbers of event.proto. */
const EVENT = { wallTime: 1, step: 2, fileVersion: 3, summary: 5, sessionLog: 7 } as const;
const SESSION_START = 1;

const about = (wallTime: number, step: number) =>
  Buffer.concat([doubleField(EVENT.wallTime, wallTime), unlessZero(intField, EVENT.step, step)]);

/** @param wallTime in seconds since 1970 */
export function summaryEvent(wallTime: number, step: number, values: readonly SummaryValue[]): Buffer {
  return Buffer.concat([about(wallTime, step), messageField(EVENT.summary, ...values)]);
}

/** The first event of every file. */
export const fileVersionEvent = (wallTime: number): Buffer =>
  Buffer.concat([about(wallTime, 0), bytesField(EVENT.fileVersion, 'brain.Event:2')]);

/** Tells a TensorBoard that has read an older file of the run to forget it. */
export const startEvent = (wallTime: number): Buffer =>
  Buffer.concat([about(wallTime, 0), messageField(EVENT.sessionLog, intField(1, SESSION_START))]);

/** When and for which step an event was written. @throws Error if `event` is not one */
export function eventTime(event: Buffer): { wallTime: number; step: number } {
  let [wallTime, step] = [0, 0];
  for (const { number, value } of readFields(event)) {
    if (number === EVENT.wallTime && typeof value === 'object') wallTime = value.readDoubleLE();
    if (number === EVENT.step && typeof value === 'number') step = value;
  }
  return { wallTime, step };
}

/** Field numbers of Summary.Value. */
const VALUE = { tag: 1, simpleValue: 2, histogram: 5, tensor: 8, metadata: 9 } as const;
const SUMMARY_VALUE = 1;

const summaryValue = (tag: string, ...parts: readonly Buffer[]): SummaryValue =>
  messageField(SUMMARY_VALUE, bytesField(VALUE.tag, tag), ...parts);

export const scalarValue = (tag: string, value: number): SummaryValue =>
  summaryValue(tag, floatField(VALUE.simpleValue, value));

const BUCKETS = 30;

/** Counts in `BUCKETS` ranges of equal width, of which the last includes its end: numpy's `histogram`. */
function equalWidthCounts(values: readonly number[]): { edges: number[]; counts: number[] } {
  const [min, max] = [minimum(values), maximum(values)];
  const [low, high] = min === max ? [min - 0.5, max + 0.5] : [min, max];
  const width = (high - low) / BUCKETS;
  const edges = Array.from({ length: BUCKETS + 1 }, (_, i) => (i === BUCKETS ? high : low + i * width));
  const counts = new Array<number>(BUCKETS).fill(0);
  for (const value of values) {
    let i = Math.min(BUCKETS - 1, Math.floor((value - low) / width));
    // The division may have rounded across an edge.
    if (value < edges[i]!) i--;
    else if (i < BUCKETS - 1 && value >= edges[i + 1]!) i++;
    counts[i]!++;
  }
  return { edges, counts };
}

/** @param values finite, at least one */
export function histogramValue(tag: string, values: readonly number[]): SummaryValue {
  const { edges, counts } = equalWidthCounts(values);
  const sum = values.reduce((a, b) => a + b, 0);
  const squares = values.reduce((a, b) => a + b * b, 0);
  const statistics = [minimum(values), maximum(values), values.length, sum, squares];
  return summaryValue(
    tag,
    messageField(
      VALUE.histogram,
      ...statistics.map((value, i) => unlessZero(doubleField, i + 1, value)),
      doublesField(6, edges.slice(1)),
      doublesField(7, counts),
    ),
  );
}

/** Field numbers and types of TensorProto and SummaryMetadata. */
const TENSOR = { dtype: 1, shape: 2, strings: 8 } as const;
const DT_FLOAT = 1;
const DT_STRING = 7;
const METADATA_PLUGIN = 1;

/** A text sample. @param markdown rendered by TensorBoard: text of others must be fenced */
export function textValue(tag: string, markdown: string): SummaryValue {
  const tensor = [intField(TENSOR.dtype, DT_STRING), messageField(TENSOR.shape)];
  return summaryValue(
    tag,
    messageField(VALUE.tensor, ...tensor, bytesField(TENSOR.strings, markdown)),
    messageField(VALUE.metadata, messageField(METADATA_PLUGIN, bytesField(1, 'text'))),
  );
}

/** The values of the hparams plugin are in their metadata; their tensor is empty. */
function hparamsValue(tag: string, content: Buffer): SummaryValue {
  const dimensionOfSizeZero = messageField(2);
  return summaryValue(
    `_hparams_/${tag}`,
    messageField(
      VALUE.tensor,
      intField(TENSOR.dtype, DT_FLOAT),
      messageField(TENSOR.shape, dimensionOfSizeZero),
    ),
    messageField(
      VALUE.metadata,
      messageField(METADATA_PLUGIN, bytesField(1, 'hparams'), bytesField(2, content)),
    ),
  );
}

export type HparamValue = string | number | boolean;

const HPARAM_TYPES = { string: 1, boolean: 2, number: 3 } as const;

/** What the HPARAMS tab shows: the settings, and the tags of the scalars that judge them. */
export function experimentValue(
  wallTime: number,
  hparams: Readonly<Record<string, HparamValue>>,
  metricTags: readonly string[],
): SummaryValue {
  const infos = Object.entries(hparams).map(([name, value]) =>
    messageField(4, bytesField(1, name), intField(4, HPARAM_TYPES[typeof value as 'string'])),
  );
  const metrics = metricTags.map((tag) => messageField(5, messageField(1, bytesField(2, tag))));
  return hparamsValue('experiment', messageField(2, doubleField(3, wallTime), ...infos, ...metrics));
}

/** A number, text or truth as a google.protobuf.Value. */
function protobufValue(value: HparamValue): Buffer {
  if (typeof value === 'number') return doubleField(2, value);
  return typeof value === 'string' ? bytesField(3, value) : intField(4, value ? 1 : 0);
}

/** @param hparams written in the order of their names */
export function sessionStartValue(
  wallTime: number,
  hparams: Readonly<Record<string, HparamValue>>,
): SummaryValue {
  const names = Object.keys(hparams).sort();
  const entries = names.map((name) =>
    messageField(1, bytesField(1, name), bytesField(2, protobufValue(hparams[name]!))),
  );
  return hparamsValue('session_start_info', messageField(3, ...entries, doubleField(5, wallTime)));
}

const STATUS = { success: 1, failure: 2 } as const;

export function sessionEndValue(wallTime: number, status: keyof typeof STATUS): SummaryValue {
  return hparamsValue(
    'session_end_info',
    messageField(4, intField(1, STATUS[status]), doubleField(2, wallTime)),
  );
}
