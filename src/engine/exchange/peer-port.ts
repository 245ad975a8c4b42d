/** How engines reach each other: what this room needs of `#transfer`. */
import type {
  AskingPeer,
  CopyPlaced,
  PieceRanges,
  PiecesByWay,
  PlacedMemory,
  SharedRegion,
  WantedPiece,
} from "#transfer";

/** Where another engine's blocks can be read. */
export interface PeerAddress {
  readonly host: string;
  readonly port: number;
}

export function nameOf({ host, port }: PeerAddress): string {
  return `${host}:${port}`;
}

/** Pieces that one peer may read. */
export interface PortOffer {
  /** Knowing it is the right to read. */
  readonly id: string;
  /** The piece's bytes, which stay unchanged until `sent` is called or the offer has ended. */
  ready(piece: number, ranges: PieceRanges, sent: () => void): void;
  /** An engine has begun to read it. */
  readonly begun: boolean;
  /** Ends the offer: the reader is told why. */
  fail(reason: string): void;
  /** Settles when all pieces were sent, or are not read any more. */
  readonly ended: Promise<unknown>;
}

/** Reads the pieces of an offer. */
export interface PortRead {
  readonly peer: PeerAddress;
  readonly offer: string;
  readonly pieces: readonly WantedPiece[];
  /** Copies those that lie on the other engine's device. */
  readonly copyPlaced: CopyPlaced;
  /** Called when no further piece is wanted: the other engine may release its device. */
  readonly onEnding?: () => void;
  /** Called with each piece when all of it has come. */
  readonly onPiece: (piece: number) => void;
  readonly signal: AbortSignal;
  readonly deadlineMs: number;
}

/** A question to another engine. */
export interface PortAsk {
  readonly peer: PeerAddress;
  readonly message: Uint8Array;
  readonly signal: AbortSignal;
  readonly deadlineMs: number;
}

/** This engine's connection to others. Both sides of each connection know the fleet's secret. */
export interface PeerPort {
  /** Where questions are answered. */
  readonly address: PeerAddress;
  /** Where offers are read, on the same machine. */
  readonly dataPort: number;
  offer(shape: {
    readonly pieces: number;
    readonly pieceBytesMax: number;
    readonly deadlineMs: number;
  }): PortOffer;
  /** Memory from which engines of this machine take pieces without a connection; null: none. */
  share(bytes: number): SharedRegion | null;
  /** Lets networks reach memory of so many bytes; the result ends that. */
  expose(first: Uint8Array, bytes: number): () => void;
  /** Pieces that others have taken, by the way that they went. */
  sent(): PiecesByWay;
  /** Makes memory known that other engines of this machine reach by a description. */
  place(description: string, bytes: number): PlacedMemory;
  /** Calls back with descriptions of others' memory that are not used any more. */
  onForgotten(forgotten: (description: string) => void): void;
  /** Rejects when it cannot be read; nothing writes to the targets once it has settled. */
  read(read: PortRead): Promise<void>;
  /** Rejects when there is no answer in time. */
  ask(ask: PortAsk): Promise<Uint8Array>;
  /** Answers other engines' questions. */
  onAsk(answer: (message: Uint8Array, from: AskingPeer) => Promise<Uint8Array>): void;
  close(): Promise<void>;
}
