/**
 * As much of Protocol Buffers' wire format, and of TFRecord's framing, as event files need: a message is the
 * concatenation of its fields, in the order of their numbers as the reference implementation writes them.
 */

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

/** A non-negative integer below 2^53, seven bits a byte, the lowest first. */
function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let left = value; ; left = Math.floor(left / 128)) {
    if (left < 128) return Buffer.from([...bytes, left]);
    bytes.push((left % 128) + 128);
  }
}

const key = (field: number, wireType: number) => varint(field * 8 + wireType);

export const intField = (field: number, value: number): Buffer =>
  Buffer.concat([key(field, VARINT), varint(value)]);

export function doubleField(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(value);
  return Buffer.concat([key(field, FIXED64), bytes]);
}

/** Rounded to float32. */
export function floatField(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return Buffer.concat([key(field, FIXED32), bytes]);
}

/** Text as UTF-8, raw bytes, or a message. */
export function bytesField(field: number, value: string | Buffer): Buffer {
  const bytes = typeof value === 'string' ? Buffer.from(value) : value;
  return Buffer.concat([key(field, BYTES), varint(bytes.length), bytes]);
}

/** A message field from the parts of the message. */
export const messageField = (field: number, ...parts: readonly Buffer[]): Buffer =>
  bytesField(field, Buffer.concat(parts));

/** A packed list of doubles. */
export function doublesField(field: number, values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(8 * values.length);
  values.forEach((value, i) => bytes.writeDoubleLE(value, 8 * i));
  return bytesField(field, bytes);
}

/** A value that a reader assumes when the field is absent, which is how it is then written. */
export const unlessZero = (
  write: (field: number, value: number) => Buffer,
  field: number,
  value: number,
): Buffer => (value === 0 ? Buffer.alloc(0) : write(field, value));

export interface Field {
  number: number;
  /** A whole number, or the bytes of any other field. */
  value: number | Buffer;
}

function readVarint(message: Buffer, at: number): { value: number; next: number } {
  let value = 0;
  for (let i = 0; i < 10; i++) {
    const byte = message[at + i];
    if (byte === undefined) break;
    value += (byte & 127) * 2 ** (7 * i);
    if (byte < 128) return { value, next: at + i + 1 };
  }
  throw new Error('not a protobuf message: a number does not end');
}

/** The fields of a message in order. @throws Error for bytes that are no message */
export function* readFields(message: Buffer): Generator<Field> {
  for (let at = 0; at < message.length;) {
    const { value: tag, next } = readVarint(message, at);
    const [number, wireType] = [Math.floor(tag / 8), tag % 8];
    if (wireType === VARINT) {
      const { value, next: after } = readVarint(message, next);
      yield { number, value };
      at = after;
      continue;
    }
    const sized = wireType === BYTES ? readVarint(message, next) : { value: sizeOf(wireType), next };
    at = sized.next + sized.value;
    if (at > message.length) throw new Error('not a protobuf message: a field is cut off');
    yield { number, value: message.subarray(sized.next, at) };
  }
}

function sizeOf(wireType: number): number {
  if (wireType === FIXED64) return 8;
  if (wireType === FIXED32) return 4;
  throw new Error(`not a protobuf message: wire type ${wireType}`);
}

/** CRC-32C's polynomial, lowest bit first. */
const POLYNOMIAL = 0x82f63b78;

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = (crc & 1) === 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
  return crc;
});

export function crc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ TABLE[(crc ^ byte) & 255]!;
  return (crc ^ 0xffffffff) >>> 0;
}

const MASK_DELTA = 0xa282ead8;

function maskedCrc(bytes: Uint8Array): number {
  const crc = crc32c(bytes);
  return (((crc >>> 15) | (crc << 17)) + MASK_DELTA) >>> 0;
}

const LENGTH_BYTES = 8;
const HEADER_BYTES = LENGTH_BYTES + 4;
const FOOTER_BYTES = 4;

export function frame(data: Buffer): Buffer {
  const record = Buffer.alloc(HEADER_BYTES + data.length + FOOTER_BYTES);
  record.writeBigUInt64LE(BigInt(data.length));
  record.writeUInt32LE(maskedCrc(record.subarray(0, LENGTH_BYTES)), LENGTH_BYTES);
  data.copy(record, HEADER_BYTES);
  record.writeUInt32LE(maskedCrc(data), HEADER_BYTES + data.length);
  return record;
}

/** The data of each record up to the first that is cut off or damaged, as what follows cannot be found. */
export function* unframe(file: Buffer): Generator<Buffer> {
  for (let at = 0; at + HEADER_BYTES + FOOTER_BYTES <= file.length;) {
    const length = Number(file.readBigUInt64LE(at));
    if (file.readUInt32LE(at + LENGTH_BYTES) !== maskedCrc(file.subarray(at, at + LENGTH_BYTES))) return;
    const from = at + HEADER_BYTES;
    const to = from + length;
    if (to + FOOTER_BYTES > file.length) return;
    const data = file.subarray(from, to);
    if (file.readUInt32LE(to) !== maskedCrc(data)) return;
    yield data;
    at = to + FOOTER_BYTES;
  }
}
