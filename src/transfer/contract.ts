/** The contract that all ways of moving blocks keep; each runs `test/contracts/transfer.ts`. */

/** Where a server of another process listens. */
export interface PeerAddress {
  readonly host: string;
  readonly port: number;
}

/** What one process lets others read. */
export interface TransferServer {
  readonly address: PeerAddress;
  /** An ordered list of pieces that one peer may read once, also while pieces are added. */
  offer(options: OfferOptions): Offer;
  /** Counts of what is held now; all are 0 when nothing is offered and no peer is connected. */
  stats(): TransferServerStats;
  /** Ends all offers and connections; settles when no memory is read any more. */
  close(): Promise<void>;
}

export interface OfferOptions {
  readonly pieces: number;
  readonly pieceBytesMax: number;
  /** From now until the last piece was sent. */
  readonly deadlineMs: number;
}

export interface Offer {
  /** 128 random bits as hexadecimal digits: to know it is the right to read. */
  readonly id: string;
  /**
   * Piece `index` is ready. Its bytes are those of `ranges`, one after another, and stay unchanged
   * until `onSent` was called or `ended` settled, whichever comes first. `onSent` is also called
   * for a piece that the reader did not ask for.
   */
  ready(index: number, ranges: readonly Uint8Array[], onSent?: () => void): void;
  /** The pieces that are missing will never be ready. */
  fail(reason: string): void;
  /** Settles when no memory of the offer is read any more. It never rejects. */
  readonly ended: Promise<OfferEnd>;
  /** Ends the offer; without effect when it has ended. */
  release(): void;
}

export interface OfferEnd {
  /**
   * sent: the reader has, or will be sent, all that it asked for · failed: by `fail`, or pieces
   * that were not what the reader expected · expired: the deadline passed · released: by `release`
   * or the server's `close` · abandoned: the reader gave up, or its connection ended.
   */
  readonly outcome: "sent" | "failed" | "expired" | "released" | "abandoned";
  readonly reason: string;
}

export interface TransferServerStats {
  readonly offers: number;
  readonly connections: number;
  readonly refusedConnections: number;
}

/** Reads what other processes offer. */
export interface TransferClient {
  /**
   * Resolves when all pieces are in their memory and checked; rejects with a TransferError. Once it
   * has settled nothing is written into the memory any more.
   */
  read(request: ReadRequest): Promise<void>;
  close(): Promise<void>;
}

export interface ReadRequest {
  readonly peer: PeerAddress;
  readonly offer: string;
  readonly pieces: readonly WantedPiece[];
  /** Called as each piece has arrived and was checked. */
  readonly onPiece?: (index: number) => void;
  readonly signal?: AbortSignal;
  readonly deadlineMs: number;
}

export interface WantedPiece {
  readonly index: number;
  /** The piece's bytes go here, one range after another; their sum is the piece's size. */
  readonly into: readonly Uint8Array[];
}

/** Bytes of all ranges together. */
export function bytesOf(ranges: readonly Uint8Array[]): number {
  let bytes = 0;
  for (const range of ranges) bytes += range.byteLength;
  return bytes;
}
