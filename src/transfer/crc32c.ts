import { transferLibrary } from "./native/library.ts";

const POLYNOMIAL = 0x82f63b78;

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? POLYNOMIAL : 0);
  return crc;
});

/** CRC32C of bytes, natively where that was built. */
export function crc32c(data: Uint8Array): number {
  const library = transferLibrary();
  return library === null ? plainCrc32c(data) : library.crc32c(data, data.byteLength, 0);
}

/** The same in JavaScript. */
export function plainCrc32c(data: Uint8Array): number {
  let crc = -1;
  for (const byte of data) crc = (crc >>> 8) ^ table[(crc ^ byte) & 255]!;
  return ~crc >>> 0;
}
