/**
 * The header of a safetensors file: eight bytes with its length, JSON, then the tensors end to end.
 * https://github.com/huggingface/safetensors#format
 */
import type { AcoerError } from '../base/errors';
import type { TensorPlace } from '../engine/types';
import { isRecord, shownJson } from '../base/json';
import { parseJson } from './files';

/** Enough for 5,000 tensors with long names. A header is parsed in one go, which blocks the event loop. */
const MAX_HEADER_BYTES = 1 << 20;
const MAX_NAME_LENGTH = 500;
const PREFIX_BYTES = 8;

const BITS: ReadonlyMap<string, number> = new Map([
  ...['F64', 'I64', 'U64', 'C64'].map((name) => [name, 64] as const),
  ...['F32', 'I32', 'U32'].map((name) => [name, 32] as const),
  ...['F16', 'BF16', 'I16', 'U16'].map((name) => [name, 16] as const),
  ...['I8', 'U8', 'BOOL', 'F8_E5M2', 'F8_E4M3', 'F8_E8M0'].map((name) => [name, 8] as const),
  ...['F6_E2M3', 'F6_E3M2'].map((name) => [name, 6] as const),
  ['F4', 4],
  ['C128', 128],
]);

/** Sizes or offsets, checked by hand: this is called for every tensor, and zod takes ten times as long. */
const isCounts = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((count) => Number.isSafeInteger(count) && count >= 0);

/** Makes the error for what is wrong with a file. */
export type Complaint = (what: string, cause?: unknown) => AcoerError;

/** Where the header is, by the file's first eight bytes (all, if there are fewer). @throws `bad`'s error */
export function headerPlace(prefix: Buffer, fileBytes: number, bad: Complaint): { from: number; to: number } {
  if (prefix.length < PREFIX_BYTES) throw bad('it is too short');
  const length = prefix.readBigUInt64LE();
  if (length > BigInt(fileBytes - PREFIX_BYTES)) {
    throw bad(`it is cut off: its header has ${length} bytes, the file ${fileBytes}`);
  }
  if (length > BigInt(MAX_HEADER_BYTES)) {
    throw bad(`its header has ${length} bytes; the limit is ${MAX_HEADER_BYTES}`);
  }
  return { from: PREFIX_BYTES, to: PREFIX_BYTES + Number(length) };
}

/**
 * The tensors in file order. Each is inside the file and its size matches its shape and type, and they have
 * no overlaps or gaps, so that a truncated file is detected at once.
 * @param header the bytes in the range that `headerPlace` returned
 * @throws `bad`'s error
 */
export function parseHeader(header: Buffer, fileBytes: number, bad: Complaint): TensorPlace[] {
  const start = PREFIX_BYTES + header.length;
  const root = headerJson(header, bad);
  const tensors: TensorPlace[] = [];
  for (const [name, value] of Object.entries(root)) {
    if (name !== '__metadata__') tensors.push(placeOf(name, value, start, bad));
    else if (!isRecord(value)) throw bad('its __metadata__ is not an object');
  }
  tensors.sort((a, b) => a.begin - b.begin || a.end - b.end);
  checkLayout(tensors, start, fileBytes, bad);
  return tensors;
}

function headerJson(header: Buffer, bad: Complaint): Record<string, unknown> {
  let root: unknown;
  try {
    root = parseJson(header, 'its header');
  } catch (cause) {
    throw bad((cause as Error).message, cause);
  }
  if (!isRecord(root)) throw bad('its header is not an object');
  return root;
}

function placeOf(name: string, value: unknown, start: number, bad: Complaint): TensorPlace {
  if (name.length > MAX_NAME_LENGTH || name.includes('\0')) {
    throw bad(`it names a tensor ${shownJson(name)}`);
  }
  const wrong = (what: string) => bad(`tensor ${name} ${what}`);
  const { dtype, shape, data_offsets: offsets } = isRecord(value) ? value : {};
  if (typeof dtype !== 'string') throw wrong('has no dtype');
  if (!isCounts(shape)) throw wrong('has a shape that is not a list of sizes');
  if (!isCounts(offsets) || offsets.length !== 2) throw wrong('has impossible data_offsets');
  const bits = BITS.get(dtype);
  if (bits === undefined) throw wrong(`has the unknown type ${shownJson(dtype)}`);
  const needed = shape.reduce((product, size) => product * size, bits) / 8;
  const [begin, end] = offsets as [number, number];
  if (end - begin !== needed) {
    throw wrong(`has ${end - begin} bytes, but ${dtype} ${shownJson(shape)} needs ${needed}`);
  }
  return { name, dtype, shape, begin: start + begin, end: start + end };
}

function checkLayout(
  tensors: readonly TensorPlace[],
  start: number,
  fileBytes: number,
  bad: Complaint,
): void {
  let at = start;
  for (const { name, begin, end } of tensors) {
    if (begin !== at) {
      throw bad(`tensor ${name} starts at byte ${begin - start} of the data instead of ${at - start}`);
    }
    at = end;
  }
  if (at !== fileBytes) {
    throw bad(`it is cut off or too long: it has ${fileBytes} bytes, its header describes ${at}`);
  }
}
