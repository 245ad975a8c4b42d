/** The way within one process: a reader finds the server by its address and copies its memory. */
import { arePlaced, type PeerAddress, type PieceRanges } from "./contract.ts";
import type { Copier } from "./copier.ts";
import type { OfferBook } from "./offer-book.ts";
import type { PendingRead } from "./pending-read.ts";
import { foreignRanges } from "./placed-memory.ts";
import { type PieceReader, StandingOffer } from "./standing-offer.ts";

interface LocalServer {
  readonly book: OfferBook;
  /** Who knows none of them may not read here either. */
  readonly secrets: readonly string[];
}

const servers = new Map<string, LocalServer>();

const nameOf = ({ host, port }: PeerAddress) => `${host}:${port}`;

/** Makes a server known to readers of this thread; returns how it is forgotten. */
export function registerLocal(address: PeerAddress, server: LocalServer): () => void {
  const name = nameOf(address);
  servers.set(name, server);
  return () => {
    if (servers.get(name) === server) servers.delete(name);
  };
}

export function findLocal(address: PeerAddress): LocalServer | null {
  return servers.get(nameOf(address)) ?? null;
}

/** Serves `read` from a book of this thread. */
export function readLocally(read: PendingRead, book: OfferBook, copier: Copier): void {
  const reader = new LocalReader(read, copier);
  const offer = book.attach(read.request.offer, reader);
  if (offer instanceof StandingOffer) {
    read.onStop((quiet) => {
      reader.whenQuiet(quiet);
      offer.abandon("the reader gave up");
    });
  } else read.fail(offer.code, offer.reason);
}

class LocalReader implements PieceReader {
  readonly wanted: ReadonlyMap<number, number>;
  readonly #read: PendingRead;
  readonly #copier: Copier;
  #copying = 0;
  #waiting: (() => void)[] = [];

  constructor(read: PendingRead, copier: Copier) {
    this.wanted = read.wanted;
    this.#read = read;
    this.#copier = copier;
  }

  send(index: number, ranges: PieceRanges, sent: () => void): string | null {
    if (this.#read.ending) return null;
    const into = this.#read.targets.get(index);
    const { copyPlaced } = this.#read.request;
    if (!arePlaced(ranges)) {
      if (into === undefined) return "the reader wants memory that it can reach itself";
      this.#copying++;
      this.#copier.copy(ranges, into, () => this.#copied(index, sent));
      return null;
    }
    if (into !== undefined || copyPlaced === undefined) return "the reader cannot reach it";
    this.#copying++;
    copyPlaced(index, foreignRanges(ranges), (copied) => {
      if (!copied) this.#read.fail("failed", `piece ${index} could not be copied`);
      this.#copied(index, sent);
    });
    return null;
  }

  #copied(index: number, sent: () => void): void {
    this.#copying--;
    sent();
    this.#read.arrived(index);
    if (this.#copying === 0) for (const quiet of this.#waiting.splice(0)) quiet();
  }

  end(code: Parameters<PieceReader["end"]>[0], reason: string, quiet: () => void): void {
    this.whenQuiet(quiet);
    if (code !== null) this.#read.fail(code, reason);
  }

  whenQuiet(quiet: () => void): void {
    if (this.#copying === 0) quiet();
    else this.#waiting.push(quiet);
  }
}
