/** The contract that all ways of moving blocks keep; each runs `test/contracts/transfer.ts`. */

/** Where a server of another process listens. */
export interface PeerAddress {
  readonly host: string;
  readonly port: number;
}

/**
 * Memory that only some readers on this machine reach, and only with what its description says, as
 * a GPU's: such readers copy from it themselves.
 */
export interface PlacedMemory {
  readonly bytes: number;
  /** It must not be offered any more. */
  release(): void;
}

/** A part of placed memory. */
export interface PlacedRange {
  readonly memory: PlacedMemory;
  readonly offset: number;
  readonly bytes: number;
}

/** Parts of a piece, all of one kind. */
export type PieceRanges = readonly Uint8Array[] | readonly PlacedRange[];

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
   * for a piece that the reader did not ask for. A reader that cannot reach placed ranges fails.
   */
  ready(index: number, ranges: PieceRanges, onSent?: () => void): void;
  /** A peer has begun to read it. */
  readonly begun: boolean;
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
  /** Pieces since the start, for readers of other threads and processes. */
  readonly pieces: PiecesByWay;
}

/** bytes: sent · mapped: taken out of memory of this machine · nixl: read by that library. */
export interface PiecesByWay {
  readonly bytes: number;
  readonly mapped: number;
  readonly nixl: number;
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
  /** Copies pieces that lie in placed memory: those whose bytes alone are named. */
  readonly copyPlaced?: CopyPlaced;
  /** Called when no further piece is wanted, whatever is still being copied. */
  readonly onEnding?: () => void;
  /** Called as each piece has arrived and was checked. */
  readonly onPiece?: (index: number) => void;
  readonly signal?: AbortSignal;
  readonly deadlineMs: number;
}

/** A piece, and where it goes. */
export type WantedPiece = WantedBytes | WantedPlaced;

export interface WantedBytes {
  readonly index: number;
  /** The piece's bytes go here, one range after another; their sum is the piece's size. */
  readonly into: readonly Uint8Array[];
}

/** A piece that `copyPlaced` copies. */
export interface WantedPlaced {
  readonly index: number;
  readonly bytes: number;
}

/** A part of another process's placed memory, as its owner describes it. */
export interface ForeignRange {
  readonly description: string;
  /** Of the whole memory; the range lies inside of it. */
  readonly memoryBytes: number;
  readonly offset: number;
  readonly bytes: number;
}

/**
 * Copies a piece to where its reader wants it, and calls `done` once it touches neither side any
 * more; false: it could not. What an owner says may be wrong: it is checked like a stranger's.
 */
export type CopyPlaced = (
  piece: number,
  from: readonly ForeignRange[],
  done: (copied: boolean) => void,
) => void;

/** Bytes of all ranges together. */
export function bytesOf(ranges: PieceRanges): number {
  let bytes = 0;
  for (const range of ranges) bytes += "memory" in range ? range.bytes : range.byteLength;
  return bytes;
}

/** Whether ranges are parts of placed memory. */
export function arePlaced(ranges: PieceRanges): ranges is readonly PlacedRange[] {
  const [first] = ranges;
  return first !== undefined && "memory" in first;
}
