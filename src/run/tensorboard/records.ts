/**
 * TFRecord, the framing of event files: length (8 bytes), its checksum, the data, its checksum. A checksum is
 * CRC-32C, rotated and shifted by a constant.
 */

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
