import { randomBytes } from "node:crypto";
import { assert } from "#base";
import { type TransferLibrary, transferLibrary } from "./native/library.ts";
import { addressOf } from "./native/range-table.ts";
import { addRegion } from "./regions.ts";

/** Memory that readers on this machine copy from directly. */
export interface SharedMemory {
  readonly memory: Uint8Array;
  /** It must not be offered, read into or looked at any more. */
  release(): void;
}

/** A shared region, as it is told to peers. */
export interface Segment {
  readonly id: number;
  readonly name: string;
  readonly fd: number;
  readonly address: number;
  readonly bytes: number;
}

const NAME_BYTES = 16;
/** Places of one piece: a frame has room for them. */
const PLACES_MAX = 32_768;
/** koffi.view takes no more. */
const VIEW_BYTES_MAX = 2 ** 32;

const segments = new Map<number, Segment>();
let nextId = 1;

/**
 * Memory whose pieces readers on this machine take without a connection. Elsewhere, and where it
 * cannot be had, it is ordinary memory.
 */
export function sharedMemory(bytes: number): SharedMemory {
  const fits = Number.isSafeInteger(bytes) && bytes > 0 && bytes <= VIEW_BYTES_MAX;
  assert(fits, `Cannot share ${bytes} bytes: 1 to ${VIEW_BYTES_MAX} wanted`);
  const library = transferLibrary();
  const region = library === null ? null : sharedRegion(bytes);
  if (library === null || region === null) {
    return { memory: new Uint8Array(bytes), release: () => {} };
  }
  return {
    memory: new Uint8Array(library.view(Number(region.address), bytes)),
    release: () => region.release(),
  };
}

/** The same, known by its address, of any size. */
export interface SharedRegion {
  readonly address: bigint;
  /** As `SharedMemory.release`. */
  release(): void;
}

/** Null: it cannot be had. */
export function sharedRegion(bytes: number): SharedRegion | null {
  const library = transferLibrary();
  const segment = library === null ? null : createSegment(library, bytes);
  if (library === null || segment === null) return null;
  segments.set(segment.id, segment);
  const forget = addRegion(segment.address, segment.bytes);
  return {
    address: BigInt(segment.address),
    release() {
      if (!segments.delete(segment.id)) return;
      forget();
      library.releaseShared(segment.address, segment.bytes, segment.fd);
    },
  };
}

function createSegment(library: TransferLibrary, bytes: number): Segment | null {
  const name = `perigee-${randomBytes(NAME_BYTES).toString("hex")}`;
  const address = new BigUint64Array(1);
  const fd = library.createShared(name, bytes, address);
  return fd < 0 ? null : { id: nextId++, name, fd, address: Number(address[0]), bytes };
}

/** A range as a place in a shared region. */
export interface SharedPlace {
  readonly segment: Segment;
  /** The segment describes so much memory that the range is in. Default: it is in the segment. */
  readonly placedBytes?: number;
  readonly offset: number;
  readonly bytes: number;
}

/** Where ranges are shared; null if one of them is not. */
export function sharedPlaces(ranges: readonly Uint8Array[]): SharedPlace[] | null {
  const library = transferLibrary();
  if (library === null || segments.size === 0 || ranges.length > PLACES_MAX) return null;
  const places: SharedPlace[] = [];
  for (const range of ranges) {
    if (range.byteLength === 0) continue;
    const address = addressOf(library, range);
    const segment = segmentAt(address, range.byteLength);
    if (segment === null) return null;
    places.push({ segment, offset: address - segment.address, bytes: range.byteLength });
  }
  return places;
}

function segmentAt(address: number, bytes: number): Segment | null {
  for (const segment of segments.values()) {
    const end = segment.address + segment.bytes;
    if (address >= segment.address && address + bytes <= end) return segment;
  }
  return null;
}

/** The region that a view lies in, if it is shared. */
export function segmentOf(view: Uint8Array): Segment | null {
  return sharedPlaces([view])?.[0]?.segment ?? null;
}
