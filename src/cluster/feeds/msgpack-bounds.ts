/**
 * Checks msgpack before it is decoded: a few bytes may claim lists of billions, one in the other,
 * and a decoder makes room for each of them first.
 */

/** Deepest nesting of an honest batch is 6: batch, events, event, keys, keys of a block, pair. */
const DEPTH_MAX = 10;

/**
 * Whether the bytes are one value whose lists and maps hold no more than there are bytes for, not
 * nested deeper than a batch of events.
 */
export function isBounded(bytes: Uint8Array): boolean {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  /** Values still to come, by depth. */
  const open: number[] = [1];
  let place = 0;
  while (open.length > 0) {
    const left = open.pop() ?? 0;
    if (left === 0) continue;
    open.push(left - 1);
    if (place >= bytes.length) return false;
    const { size, items } = headerAt(view, place);
    place += size;
    if (place > bytes.length || items > bytes.length - place) return false;
    if (items > 0 && open.push(items) > DEPTH_MAX) return false;
  }
  return place === bytes.length;
}

interface Header {
  /** Bytes of the value without its items. */
  readonly size: number;
  /** Values inside of it. */
  readonly items: number;
}

const TOO_SHORT: Header = { size: Number.POSITIVE_INFINITY, items: 0 };

/** Bytes of the values of one fixed size, from type 0xc0 on; 0: another kind, or never used. */
const FIXED: readonly number[] = [
  1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 5, 9, 2, 3, 5, 9, 2, 3, 5, 9, 3, 4, 6, 10, 18,
];

function headerAt(view: DataView, place: number): Header {
  const type = view.getUint8(place);
  if (type < 0x80 || type >= 0xe0) return { size: 1, items: 0 };
  if (type < 0x90) return { size: 1, items: (type & 0x0f) * 2 };
  if (type < 0xa0) return { size: 1, items: type & 0x0f };
  if (type < 0xc0) return { size: 1 + (type & 0x1f), items: 0 };
  const fixed = FIXED[type - 0xc0] ?? 0;
  if (fixed > 0) return { size: fixed, items: 0 };
  switch (type) {
    case 0xc4: // binary
    case 0xd9: // text
      return sized(view, place, 1, 0);
    case 0xc5:
    case 0xda:
      return sized(view, place, 2, 0);
    case 0xc6:
    case 0xdb:
      return sized(view, place, 4, 0);
    case 0xc7: // extensions have a byte for their type
      return sized(view, place, 1, 1);
    case 0xc8:
      return sized(view, place, 2, 1);
    case 0xc9:
      return sized(view, place, 4, 1);
    case 0xdc: // lists
      return counted(view, place, 2, 1);
    case 0xdd:
      return counted(view, place, 4, 1);
    case 0xde: // maps
      return counted(view, place, 2, 2);
    case 0xdf:
      return counted(view, place, 4, 2);
    default:
      return TOO_SHORT;
  }
}

function sized(view: DataView, place: number, width: 1 | 2 | 4, more: number): Header {
  const length = lengthAt(view, place, width);
  return length === null ? TOO_SHORT : { size: 1 + width + more + length, items: 0 };
}

function counted(view: DataView, place: number, width: 2 | 4, each: number): Header {
  const length = lengthAt(view, place, width);
  return length === null ? TOO_SHORT : { size: 1 + width, items: length * each };
}

function lengthAt(view: DataView, place: number, width: 1 | 2 | 4): number | null {
  if (place + 1 + width > view.byteLength) return null;
  if (width === 1) return view.getUint8(place + 1);
  return width === 2 ? view.getUint16(place + 1) : view.getUint32(place + 1);
}
