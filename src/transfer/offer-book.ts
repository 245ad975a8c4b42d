import { randomBytes } from "node:crypto";
import { assert } from "#base";
import type { Offer, OfferOptions } from "./contract.ts";
import { type PieceReader, type Refusal, StandingOffer } from "./standing-offer.ts";

const ID_BYTES = 16;
/** Pieces of one offer: what a reader names in one message is bounded by it. */
export const PIECES_MAX = 65_536;
/** The longest delay of a timer. */
export const DEADLINE_MS_MAX = 2_147_483_647;

const UNKNOWN: Refusal = { code: "unknown_offer", reason: "there is no such offer" };
const UNREAD_MAX = 1024;

/** All offers of one server. */
export class OfferBook {
  readonly #offers = new Map<string, StandingOffer>();
  /** Why offers ended that nothing had read yet, the latest of them. */
  readonly #unread = new Map<string, Refusal>();
  #closed = false;

  get size(): number {
    return this.#offers.size;
  }

  open(options: OfferOptions): Offer {
    const { pieces, pieceBytesMax, deadlineMs } = options;
    assert(!this.#closed, "Cannot offer: the transfer server is closed");
    const counts = Number.isInteger(pieces) && pieces > 0 && pieces <= PIECES_MAX;
    assert(counts, `Cannot offer ${pieces} pieces: 1 to ${PIECES_MAX} wanted`);
    assert(Number.isSafeInteger(pieceBytesMax) && pieceBytesMax > 0, "Cannot offer empty pieces");
    assert(deadlineMs > 0 && deadlineMs <= DEADLINE_MS_MAX, `Cannot wait ${deadlineMs} ms`);
    const id = randomBytes(ID_BYTES).toString("hex");
    const offer = new StandingOffer(id, options, (unread) => this.#forget(id, unread));
    this.#offers.set(id, offer);
    return offer;
  }

  #forget(id: string, unread: Refusal | null): void {
    this.#offers.delete(id);
    if (unread === null) return;
    this.#unread.set(id, unread);
    const oldest = this.#unread.keys().next();
    if (this.#unread.size > UNREAD_MAX && !oldest.done) this.#unread.delete(oldest.value);
  }

  /** Begins a read of the offer; says why not. */
  attach(id: string, reader: PieceReader): StandingOffer | Refusal {
    const offer = this.#offers.get(id);
    if (offer === undefined) return this.#unread.get(id) ?? UNKNOWN;
    return offer.attach(reader) ?? offer;
  }

  /** Releases all offers; settles when no memory is read any more. */
  async close(): Promise<void> {
    this.#closed = true;
    const offers = [...this.#offers.values()];
    for (const offer of offers) offer.release();
    await Promise.all(offers.map((offer) => offer.ended));
  }
}
