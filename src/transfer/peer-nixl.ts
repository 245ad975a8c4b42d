import type { FrameFields } from "./frames.ts";
import type { NativeContext } from "./native/native-context.ts";
import { forEachRow, wordsOf } from "./native/range-table.ts";
import { METADATA_BYTES_MAX, type NixlAgent } from "./nixl/agent.ts";
import type { PendingRead } from "./pending-read.ts";
import { TransferError } from "./transfer-error.ts";

/** Reads of one peer's memory by NIXL, at the reader. */
export class PeerNixl {
  readonly #agent: NixlAgent;
  readonly #native: NativeContext;
  /** Null: nothing is known of it yet. */
  #peer: string | null = null;
  #isBroken = false;

  constructor(agent: NixlAgent, native: NativeContext) {
    this.#agent = agent;
    this.#native = native;
  }

  /** Whether all pieces of the read have memory that NIXL writes. */
  reaches({ targets, wanted }: PendingRead): boolean {
    if (this.#isBroken || targets.size < wanted.size) return false;
    for (const into of targets.values()) {
      const words = wordsOf(this.#native.library, into);
      for (let at = 0; at < words.length; at += 2) {
        if (!this.#agent.covers(words[at]!, words[at + 1]!)) return false;
      }
    }
    return true;
  }

  /** What the peer says of itself; false: NIXL does not understand it. */
  meet(metadata: Buffer): boolean {
    if (metadata.byteLength > METADATA_BYTES_MAX) return false;
    this.#peer = this.#agent.load(metadata);
    if (this.#peer === null) this.#isBroken = true;
    return this.#peer !== null;
  }

  /** Reads a piece to where the read wants it; false: it is not what was asked for. */
  read(
    read: PendingRead,
    piece: number,
    fields: FrameFields,
    done: (ok: boolean) => void,
  ): boolean {
    const from: number[] = [];
    let total = 0;
    while (fields.left > 0) {
      const address = Number(fields.u64());
      const bytes = fields.u48();
      if (!Number.isSafeInteger(address)) throw new TransferError("corrupt", "No such address");
      from.push(address, bytes);
      total += bytes;
    }
    const into = read.targets.get(piece);
    if (this.#peer === null)
      throw new TransferError("corrupt", "Memory of an unknown agent was named");
    if (into === undefined || total !== read.wanted.get(piece)) {
      read.fail("corrupt", `piece ${piece} has ${total} bytes`);
      return false;
    }
    const rows: number[] = [];
    forEachRow(from, wordsOf(this.#native.library, into), (...row) => rows.push(...row));
    this.#agent.read(this.#peer, rows, (ok) => {
      // What failed once would fail again: later reads go another way.
      if (!ok) this.#isBroken = true;
      done(ok);
    });
    return true;
  }

  release(): void {
    if (this.#peer !== null) this.#agent.forget(this.#peer);
    this.#peer = null;
  }
}
