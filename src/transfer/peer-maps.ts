import type { FrameFields } from "./frames.ts";
import type { NativeContext } from "./native/native-context.ts";
import { copyRows, wordsOf } from "./native/range-table.ts";
import type { PendingRead } from "./pending-read.ts";
import { TransferError } from "./transfer-error.ts";

interface Mapping {
  readonly address: bigint;
  readonly bytes: number;
}

const SEGMENTS_MAX = 4096;
const NAME = /^perigee-[0-9a-f]{32}$/;
const WORD_BYTES = 8;

/** Shared memory of one peer, mapped here, and copies from it. */
export class PeerMaps {
  readonly #native: NativeContext;
  /** Null: cannot be mapped. */
  readonly #mappings = new Map<number, Mapping | null>();
  #copies = 0;
  #released = false;

  constructor(native: NativeContext) {
    this.#native = native;
  }

  /** The peer told of a region; false if it cannot be mapped. */
  map(fields: FrameFields): boolean {
    const id = fields.u32();
    const pid = fields.u32();
    const fd = fields.u32();
    const bytes = fields.u48();
    const name = fields.bytes(fields.left).toString("latin1");
    const sound = NAME.test(name) && pid < 2 ** 31 && fd < 2 ** 31 && bytes > 0;
    if (!sound || this.#mappings.has(id) || this.#mappings.size >= SEGMENTS_MAX) {
      throw new TransferError("corrupt", "A region of shared memory was not well described");
    }
    const address = BigInt(this.#native.library.mapShared(pid, fd, name, bytes));
    this.#mappings.set(id, address === 0n ? null : { address, bytes });
    return address !== 0n;
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
    let whole = slots !== null;
    let total = 0;
    while (fields.left > 0) {
      const mapping = this.#mappings.get(fields.u32());
      const offset = fields.u48();
      const bytes = fields.u48();
      if (mapping === undefined) throw new TransferError("corrupt", "An unknown region was named");
      total += bytes;
      if (mapping === null) whole = false;
      else if (offset + bytes > mapping.bytes) {
        throw new TransferError("corrupt", "A place beyond a region was named");
      } else from.push(mapping.address + BigInt(offset), BigInt(bytes));
    }
    if (!whole || slots === null) return false;
    const inside = slots !== undefined && (slot + 1) * WORD_BYTES <= slots.bytes;
    if (!inside) throw new TransferError("corrupt", "An unknown region was named");
    if (total !== read.wanted.get(piece)) {
      read.fail("corrupt", `piece ${piece} has ${total} bytes`);
      return false;
    }
    const into = read.targets.get(piece) ?? [];
    const rows = copyRows(from, wordsOf(this.#native.library, into));
    const word = slots.address + BigInt(slot * WORD_BYTES);
    this.#copies++;
    this.#native.copyWords(rows, { word, token }, (valid) => {
      this.#copies--;
      done(valid);
      if (this.#released) this.release();
    });
    return true;
  }

  /** Unmaps all, once no copy needs it. */
  release(): void {
    this.#released = true;
    if (this.#copies > 0) return;
    for (const mapping of this.#mappings.values()) {
      if (mapping !== null) {
        this.#native.library.releaseShared(mapping.address, mapping.bytes, -1);
      }
    }
    this.#mappings.clear();
  }
}
