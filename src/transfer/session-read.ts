import { arePlaced, type PieceRanges, type PiecesByWay } from "./contract.ts";
import { describedMemory } from "./placed-memory.ts";
import type { ReadSlot } from "./read-slots.ts";
import { type SharedPlace, sharedPlaces } from "./shared-memory.ts";
import type { PieceReader, StandingOffer } from "./standing-offer.ts";
import type { TransferErrorCode } from "./transfer-error.ts";

/** What a read's pieces go by: its session's connection, and what belongs to that. */
export interface ReadWays {
  /** Counts a piece. */
  went(way: keyof PiecesByWay): void;
  /** Null: no piece can be taken out of shared memory. */
  takeSlot(): ReadSlot | null;
  sendBytes(read: number, piece: number, ranges: readonly Uint8Array[], sent: () => void): void;
  sendPlaces(read: number, piece: number, slot: ReadSlot, places: readonly SharedPlace[]): void;
  /** Tells where a piece is, for a reader that uses NIXL; false: that does not reach it. */
  sendRemote(read: number, piece: number, ranges: readonly Uint8Array[]): boolean;
  sendEnd(read: number, code: TransferErrorCode, reason: string): void;
  finish(read: number, slot: ReadSlot | null, quiet: () => void): void;
}

/** How far a reader reaches. */
export interface Reach {
  /** Memory of this machine. */
  readonly maps: boolean;
  /** Memory that NIXL reads. */
  readonly nixl: boolean;
}

interface Outgoing {
  readonly ranges: PieceRanges;
  readonly sent: () => void;
  readonly way: keyof PiecesByWay;
}

/** One read of a session, at the owner. */
export class SessionRead implements PieceReader {
  readonly wanted: ReadonlyMap<number, number>;
  offer: StandingOffer | null = null;
  readonly #ways: ReadWays;
  readonly #id: number;
  readonly #outgoing = new Map<number, Outgoing>();
  #slot: ReadSlot | null = null;
  #reach: Reach;

  constructor(ways: ReadWays, id: number, wanted: ReadonlyMap<number, number>, reach: Reach) {
    this.#ways = ways;
    this.#id = id;
    this.wanted = wanted;
    this.#reach = reach;
  }

  send(index: number, ranges: PieceRanges, sent: () => void): string | null {
    const places = this.#reach.maps ? placesOf(ranges) : null;
    if (places !== null) this.#slot ??= this.#ways.takeSlot();
    const slot = this.#slot;
    if (places !== null && slot !== null) {
      this.#leaves(index, { ranges, sent, way: "mapped" });
      this.#ways.sendPlaces(this.#id, index, slot, places);
      return null;
    }
    if (arePlaced(ranges)) return "it is in memory that the reader cannot reach";
    if (this.#reach.nixl && this.#ways.sendRemote(this.#id, index, ranges)) {
      this.#leaves(index, { ranges, sent, way: "nixl" });
      return null;
    }
    this.#leaves(index, { ranges, sent, way: "bytes" });
    this.#ways.sendBytes(this.#id, index, ranges, () => this.taken(index));
    return null;
  }

  #leaves(index: number, outgoing: Outgoing): void {
    this.#outgoing.set(index, outgoing);
    this.#ways.went(outgoing.way);
  }

  /** Whether the piece's memory has stayed as it was: the reader has it then. */
  standing(index: number): boolean {
    const stands = this.#outgoing.has(index);
    this.taken(index);
    return stands;
  }

  /** The piece is with the reader, or on its way. */
  taken(index: number): void {
    const piece = this.#outgoing.get(index);
    if (!this.#outgoing.delete(index)) return;
    piece?.sent();
  }

  allTaken(): void {
    for (const index of [...this.#outgoing.keys()]) this.taken(index);
  }

  /** The reader does not reach what it was told of: that goes to it another way. */
  sendAgain(lost: "mapped" | "nixl"): void {
    this.#reach = { ...this.#reach, [lost === "mapped" ? "maps" : "nixl"]: false };
    for (const [index, { ranges, way, sent }] of [...this.#outgoing]) {
      const problem = way === lost ? this.send(index, ranges, sent) : null;
      if (problem !== null) this.offer?.fail(problem);
    }
  }

  end(code: TransferErrorCode | null, reason: string, quiet: () => void): void {
    if (code !== null) this.#ways.sendEnd(this.#id, code, reason);
    this.#outgoing.clear();
    this.#ways.finish(this.#id, this.#slot, quiet);
  }
}

/** Where ranges are, for a reader on this machine; null: one of them is in this process alone. */
function placesOf(ranges: PieceRanges): readonly SharedPlace[] | null {
  if (!arePlaced(ranges)) return sharedPlaces(ranges);
  const places: SharedPlace[] = [];
  for (const range of ranges) {
    const { segment, bytes: placedBytes } = describedMemory(range);
    if (segment === null) return null;
    places.push({ segment, placedBytes, offset: range.offset, bytes: range.bytes });
  }
  return places;
}
