import type { ForeignRange } from "./contract.ts";
import type { FrameFields } from "./frames.ts";
import type { NativeContext, Validity } from "./native/native-context.ts";
import { wordsOf } from "./native/range-table.ts";
import type { PendingRead } from "./pending-read.ts";
import { DESCRIPTION_BYTES_MAX } from "./placed-memory.ts";
import { TransferError } from "./transfer-error.ts";

interface Mapping {
  readonly address: number;
  readonly bytes: number;
}

/** Memory that is not mapped, and how it can be reached. */
interface Described {
  readonly description: string;
  readonly bytes: number;
}

/** A read of this peer, and its name. */
interface NamedRead {
  readonly id: number;
  readonly read: PendingRead;
}

/** Told of each copy that has ended; whether the owner's memory had stayed as it was. */
type OnCopied = (read: number, piece: number, valid: boolean) => void;

const SEGMENTS_MAX = 4096;
const NAME = /^perigee-[0-9a-f]{32}$/;
const WORD_BYTES = 8;
const HALF_BYTES = 4;

/** Shared memory of one peer, mapped here, and copies from it and from what it describes. */
export class PeerMaps {
  readonly #native: NativeContext;
  readonly #onForgotten: (description: string) => void;
  readonly #onCopied: OnCopied;
  readonly #tag: number;
  /** Null: cannot be mapped. */
  readonly #mappings = new Map<number, Mapping | null>();
  readonly #described = new Map<number, Described>();
  /** Views of mapped memory: its address has one view at a time. */
  readonly #words = new Map<Mapping, Uint32Array>();
  #copies = 0;
  #released = false;

  /** `onForgotten`: see `TransferClientOptions`. */
  constructor(
    native: NativeContext,
    { onForgotten, onCopied }: { onForgotten: (description: string) => void; onCopied: OnCopied },
  ) {
    this.#native = native;
    this.#onForgotten = onForgotten;
    this.#onCopied = onCopied;
    this.#tag = native.listen(({ read, piece, status }) => this.#copied(read, piece, status === 1));
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
    const address = this.#native.library.mapShared(pid, fd, name, bytes);
    return { mapping: address === 0 ? null : { address, bytes }, placedBytes };
  }

  /** What pieces' places begin with: where their read says that it stands, and how. */
  standing(fields: FrameFields): Validity | null {
    const slots = this.#mappings.get(fields.u32());
    const end = (fields.u32() + 1) * WORD_BYTES;
    const [tokenHigh, tokenLow] = [fields.u32(), fields.u32()];
    if (slots === null) return null;
    const inside = slots !== undefined && end <= slots.bytes;
    if (!inside) throw new TransferError("corrupt", "An unknown region was named");
    return { word: slots.address + end - WORD_BYTES, tokenHigh, tokenLow };
  }

  /** Begins to copy a piece to where the read wants it; false: it does not. */
  copy(
    { id, read }: NamedRead,
    piece: number,
    fields: FrameFields,
    validity: Validity | null,
  ): boolean {
    const { from, foreign, total, whole } = this.#placesOf(fields);
    if (!whole || validity === null) return false;
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
    if (this.#copies++ === 0) this.#native.hold();
    if (into === undefined) this.#copyPlaced({ id, read }, piece, foreign, validity);
    else {
      const sides = { from, into: wordsOf(this.#native.library, into) };
      this.#native.addCopy({ tag: this.#tag, read: id, piece, validity, ...sides });
    }
    return true;
  }

  /** Where a piece is. `whole`: all of it can be reached. */
  #placesOf(fields: FrameFields) {
    const from: number[] = [];
    const foreign: ForeignRange[] = [];
    let whole = true;
    let total = 0;
    for (let left = fields.u32(); left > 0; left--) {
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
      if (described !== undefined) {
        const { description, bytes: memoryBytes } = described;
        foreign.push({ description, memoryBytes, offset, bytes });
      } else if (mapping !== null && bytes > 0) from.push(mapping.address + offset, bytes);
    }
    return { from, foreign, total, whole };
  }

  #copyPlaced(
    { id, read }: NamedRead,
    piece: number,
    foreign: readonly ForeignRange[],
    validity: Validity,
  ): void {
    const { copyPlaced } = read.request;
    const copied = (isCopied: boolean) => {
      this.#copied(id, piece, isCopied && this.#stands(validity));
    };
    if (copyPlaced === undefined) queueMicrotask(() => copied(false));
    else copyPlaced(piece, foreign, copied);
  }

  /** Whether the owner has kept the read's memory as it was until now. */
  #stands({ word, tokenHigh, tokenLow }: Validity): boolean {
    for (const slots of this.#mappings.values()) {
      if (slots === null || word < slots.address || word >= slots.address + slots.bytes) continue;
      let words = this.#words.get(slots);
      if (words === undefined) {
        const bytes = slots.bytes - (slots.bytes % WORD_BYTES);
        words = new Uint32Array(this.#native.library.view(slots.address, bytes));
        this.#words.set(slots, words);
      }
      const half = (word - slots.address) / HALF_BYTES;
      return words[half] === tokenLow && words[half + 1] === tokenHigh;
    }
    return false;
  }

  #copied(read: number, piece: number, valid: boolean): void {
    this.#onCopied(read, piece, valid);
    if (--this.#copies > 0) return;
    this.#native.letGo();
    if (this.#released) this.release();
  }

  /** Unmaps all, once no copy needs it. */
  release(): void {
    this.#released = true;
    if (this.#copies > 0) return;
    this.#native.forget(this.#tag);
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
