import type { ForeignRange } from "./contract.ts";
import type { FrameFields } from "./frames.ts";
import type { NativeContext } from "./native/native-context.ts";
import { copyRows, wordsOf } from "./native/range-table.ts";
import type { PendingRead } from "./pending-read.ts";
import { DESCRIPTION_BYTES_MAX } from "./placed-memory.ts";
import { TransferError } from "./transfer-error.ts";

interface Mapping {
  readonly address: bigint;
  readonly bytes: number;
}

/** Memory that is not mapped, and how it can be reached. */
interface Described {
  readonly description: string;
  readonly bytes: number;
}

/** Where a read says that it stands, and what it says then. */
interface Standing {
  readonly slots: Mapping;
  readonly slot: number;
  readonly token: bigint;
}

const SEGMENTS_MAX = 4096;
const NAME = /^perigee-[0-9a-f]{32}$/;
const WORD_BYTES = 8;

/** Shared memory of one peer, mapped here, and copies from it and from what it describes. */
export class PeerMaps {
  readonly #native: NativeContext;
  readonly #onForgotten: (description: string) => void;
  /** Null: cannot be mapped. */
  readonly #mappings = new Map<number, Mapping | null>();
  readonly #described = new Map<number, Described>();
  /** Views of mapped memory: its address has one view at a time. */
  readonly #words = new Map<Mapping, BigUint64Array>();
  #copies = 0;
  #released = false;

  /** `onForgotten`: see `TransferClientOptions`. */
  constructor(native: NativeContext, onForgotten: (description: string) => void) {
    this.#native = native;
    this.#onForgotten = onForgotten;
  }

  /** The peer told of a region; false if it cannot be mapped. */
  map(fields: FrameFields): boolean {
    const id = fields.u32();
    const mapping = this.#mapped(id, fields, { placed: false }).mapping;
    this.#mappings.set(id, mapping);
    return mapping !== null;
  }

  /** The peer told of a description of memory; false if it cannot be read. */
  describe(fields: FrameFields): boolean {
    const id = fields.u32();
    const { mapping, placedBytes } = this.#mapped(id, fields, { placed: true });
    this.#mappings.set(id, null);
    if (mapping === null) return false;
    const { address, bytes } = mapping;
    // Copied: the peer may change what is mapped.
    const text = Buffer.from(Buffer.from(this.#native.library.view(address, bytes))).toString();
    this.#native.library.releaseShared(address, bytes, -1);
    this.#described.set(id, { description: text, bytes: placedBytes });
    return true;
  }

  #mapped(id: number, fields: FrameFields, { placed }: { placed: boolean }) {
    const pid = fields.u32();
    const fd = fields.u32();
    const bytes = fields.u48();
    const placedBytes = placed ? fields.u48() : 0;
    const name = fields.bytes(fields.left).toString("latin1");
    const sound = NAME.test(name) && pid < 2 ** 31 && fd < 2 ** 31 && bytes > 0;
    const isShort = !placed || bytes <= DESCRIPTION_BYTES_MAX;
    if (!sound || !isShort || this.#mappings.has(id) || this.#mappings.size >= SEGMENTS_MAX) {
      throw new TransferError("corrupt", "A region of shared memory was not well described");
    }
    const address = BigInt(this.#native.library.mapShared(pid, fd, name, bytes));
    return { mapping: address === 0n ? null : { address, bytes }, placedBytes };
  }

  /** Copies a piece to where the read wants it; false: it does not, and calls nothing. */
  copy(
    read: PendingRead,
    piece: number,
    fields: FrameFields,
    done: (valid: boolean) => void,
  ): boolean {
    const slots = this.#mappings.get(fields.u32());
    const slot = fields.u32();
    const token = fields.u64();
    const from: bigint[] = [];
    const foreign: ForeignRange[] = [];
    let whole = true;
    let total = 0;
    while (fields.left > 0) {
      const id = fields.u32();
      const offset = fields.u48();
      const bytes = fields.u48();
      const described = this.#described.get(id);
      const mapping = this.#mappings.get(id);
      if (mapping === undefined) throw new TransferError("corrupt", "An unknown region was named");
      total += bytes;
      const region = described ?? mapping;
      if (region === null) {
        whole = false;
        continue;
      }
      if (offset + bytes > region.bytes) {
        throw new TransferError("corrupt", "A place beyond a region was named");
      }
      if (described === undefined) from.push(addressIn(mapping, offset), BigInt(bytes));
      else {
        const { description, bytes: memoryBytes } = described;
        foreign.push({ description, memoryBytes, offset, bytes });
      }
    }
    if (!whole || slots === null) return false;
    const inside = slots !== undefined && (slot + 1) * WORD_BYTES <= slots.bytes;
    if (!inside) throw new TransferError("corrupt", "An unknown region was named");
    if (total !== read.wanted.get(piece)) {
      read.fail("corrupt", `piece ${piece} has ${total} bytes`);
      return false;
    }
    const into = read.targets.get(piece);
    const isPlaced = foreign.length > 0;
    if (isPlaced !== (into === undefined) || (isPlaced && from.length > 0)) {
      read.fail("corrupt", `piece ${piece} is in memory of another kind`);
      return false;
    }
    const standing = { slots, slot, token };
    if (into === undefined) this.#copyPlaced(read, { piece, foreign, standing }, done);
    else this.#copyMapped(copyRows(from, wordsOf(this.#native.library, into)), standing, done);
    return true;
  }

  #copyMapped(rows: bigint[], standing: Standing, done: (valid: boolean) => void): void {
    const word = standing.slots.address + BigInt(standing.slot * WORD_BYTES);
    this.#copies++;
    this.#native.copyWords(rows, { word, token: standing.token }, (valid) => {
      this.#copied();
      done(valid);
    });
  }

  #copyPlaced(
    { request }: PendingRead,
    { piece, foreign, standing }: { piece: number; foreign: ForeignRange[]; standing: Standing },
    done: (valid: boolean) => void,
  ): void {
    const copied = (isCopied: boolean) => {
      const valid = isCopied && this.#stands(standing);
      this.#copied();
      done(valid);
    };
    this.#copies++;
    if (request.copyPlaced === undefined) queueMicrotask(() => copied(false));
    else request.copyPlaced(piece, foreign, copied);
  }

  /** Whether the owner has kept the read's memory as it was until now. */
  #stands({ slots, slot, token }: Standing): boolean {
    let words = this.#words.get(slots);
    if (words === undefined) {
      const bytes = slots.bytes - (slots.bytes % WORD_BYTES);
      words = new BigUint64Array(this.#native.library.view(slots.address, bytes));
      this.#words.set(slots, words);
    }
    return words[slot] === token;
  }

  #copied(): void {
    this.#copies--;
    if (this.#released) this.release();
  }

  /** Unmaps all, once no copy needs it. */
  release(): void {
    this.#released = true;
    if (this.#copies > 0) return;
    this.#words.clear();
    for (const mapping of this.#mappings.values()) {
      if (mapping !== null) {
        this.#native.library.releaseShared(mapping.address, mapping.bytes, -1);
      }
    }
    this.#mappings.clear();
    for (const { description } of this.#described.values()) this.#onForgotten(description);
    this.#described.clear();
  }
}

function addressIn(mapping: Mapping | null | undefined, offset: number): bigint {
  return (mapping?.address ?? 0n) + BigInt(offset);
}
