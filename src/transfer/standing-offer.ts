import { assert, messageOf } from "#base";
import {
  bytesOf,
  type Offer,
  type OfferEnd,
  type OfferOptions,
  type PieceRanges,
} from "./contract.ts";
import type { TransferErrorCode } from "./transfer-error.ts";

/** Who reads an offer, by one of the ways. */
export interface PieceReader {
  /** Bytes of each piece that is asked for, by index. */
  readonly wanted: ReadonlyMap<number, number>;
  /**
   * Calls `sent` once the memory of `ranges` is not read any more, and not before it was sent.
   * Returns why it cannot be sent at all; null: it can.
   */
  send(index: number, ranges: PieceRanges, sent: () => void): string | null;
  /** Ends the read; calls `quiet` once no memory of the offer is read any more. */
  end(code: TransferErrorCode | null, reason: string, quiet: () => void): void;
}

/** Why a reader was not accepted. */
export interface Refusal {
  readonly code: TransferErrorCode;
  readonly reason: string;
}

interface ReadyPiece {
  readonly ranges: PieceRanges;
  readonly onSent: (() => void) | undefined;
}

const CODES = {
  sent: null,
  failed: "failed",
  expired: "timed_out",
  released: "failed",
  abandoned: "aborted",
} as const;

/** An offer in its server's book: waits for pieces and one reader, and sends what both name. */
export class StandingOffer implements Offer {
  readonly id: string;
  readonly ended: Promise<OfferEnd>;
  readonly #options: OfferOptions;
  readonly #onEnd: (unread: Refusal | null) => void;
  readonly #timer: NodeJS.Timeout;
  /** In the order of readiness. */
  readonly #ready = new Map<number, ReadyPiece>();
  #resolve: (end: OfferEnd) => void = () => {};
  #reader: PieceReader | null = null;
  #unsent = 0;
  #end: OfferEnd | null = null;

  constructor(id: string, options: OfferOptions, onEnd: (unread: Refusal | null) => void) {
    this.id = id;
    this.#options = options;
    this.#onEnd = onEnd;
    this.ended = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    const expire = () => this.#finish("expired", "the deadline of the offer passed");
    this.#timer = setTimeout(expire, options.deadlineMs);
    this.#timer.unref();
  }

  get begun(): boolean {
    return this.#reader !== null;
  }

  ready(index: number, ranges: PieceRanges, onSent?: () => void): void {
    const { pieces, pieceBytesMax } = this.#options;
    const inside = Number.isInteger(index) && index >= 0 && index < pieces;
    assert(inside, `Cannot offer piece ${index}: one of ${pieces} wanted`);
    const bytes = bytesOf(ranges);
    assert(bytes <= pieceBytesMax, `Cannot offer ${bytes} bytes: at most ${pieceBytesMax} wanted`);
    // The reader gave up, or time was over, while the piece was made.
    if (this.#end !== null) return;
    assert(!this.#ready.has(index), `Cannot offer piece ${index}: it was offered before`);
    this.#ready.set(index, { ranges, onSent });
    if (this.#reader !== null) this.#deliver(index);
  }

  fail(reason: string): void {
    this.#finish("failed", reason);
  }

  release(): void {
    this.#finish("released", "the offer was released");
  }

  /** Begins to serve `reader`; says why not, if it may not read. */
  attach(reader: PieceReader): Refusal | null {
    const { pieces, pieceBytesMax } = this.#options;
    if (this.#end !== null) return { code: "unknown_offer", reason: "the offer has ended" };
    if (this.#reader !== null) return { code: "refused", reason: "the offer has a reader already" };
    for (const [index, bytes] of reader.wanted) {
      if (index >= pieces || bytes > pieceBytesMax) {
        const asked = `piece ${index} of ${bytes} bytes was asked for`;
        const reason = `${asked}, there are ${pieces} of ${pieceBytesMax} at most`;
        return { code: "refused", reason };
      }
    }
    this.#reader = reader;
    this.#unsent = reader.wanted.size;
    for (const index of [...this.#ready.keys()]) this.#deliver(index);
    if (this.#unsent === 0) this.#finish("abandoned", "nothing was asked for");
    return null;
  }

  /** The reader gave up, or is gone. */
  abandon(reason: string): void {
    this.#finish("abandoned", reason);
  }

  #deliver(index: number): void {
    const piece = this.#ready.get(index);
    const reader = this.#reader;
    if (piece === undefined || reader === null || this.#end !== null) return;
    const wanted = reader.wanted.get(index);
    if (wanted === undefined) {
      piece.onSent?.();
      return;
    }
    const bytes = bytesOf(piece.ranges);
    if (bytes !== wanted) {
      this.#finish(
        "failed",
        `piece ${index} has ${bytes} bytes, ${wanted} were asked for`,
        "corrupt",
      );
      return;
    }
    const problem = reader.send(index, piece.ranges, () => this.#sent(piece));
    if (problem !== null) this.#finish("failed", problem);
  }

  #sent(piece: ReadyPiece): void {
    if (this.#end !== null) return;
    this.#unsent--;
    try {
      piece.onSent?.();
    } catch (error) {
      this.#finish("failed", `the owner of a piece failed: ${messageOf(error)}`);
      return;
    }
    if (this.#unsent === 0) this.#finish("sent", "all pieces were sent");
  }

  #finish(outcome: OfferEnd["outcome"], reason: string, code?: TransferErrorCode): void {
    if (this.#end !== null) return;
    const end = { outcome, reason };
    this.#end = end;
    clearTimeout(this.#timer);
    this.#ready.clear();
    const failure = CODES[outcome];
    this.#onEnd(this.#reader === null && failure !== null ? { code: failure, reason } : null);
    const quiet = () => this.#resolve(end);
    if (this.#reader === null) quiet();
    else this.#reader.end(code ?? CODES[outcome], reason, quiet);
  }
}
