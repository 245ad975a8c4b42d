/**
 * Kept responses. A response stands on the one that it continues: their conversation is kept once,
 * also where the older one has been deleted or has expired, as long as a younger one needs it.
 */

/** One response with the items that led to it. */
export interface StoredTurn {
  readonly id: string;
  /** Whose it is: others do not find it. */
  readonly owner: string;
  /** The response that it continues; null: none. */
  readonly previousId: string | null;
  /** The items that its request brought, as JSON in UTF-8. */
  readonly input: Uint8Array;
  /** The response, as JSON in UTF-8. */
  readonly response: Uint8Array;
  readonly cacheSalt: string | null;
}

/** A conversation that is larger than what was asked for. */
export interface TooLarge {
  readonly bytes: number;
}

/** Where responses are kept: in this thread, or in another one. */
export interface ResponseStore {
  /**
   * A response and all that it continues, the oldest first, unless it has more bytes; null: it is
   * not there.
   */
  conversation(
    owner: string,
    id: string,
    bytesMax: number,
  ): Promise<readonly StoredTurn[] | TooLarge | null>;
  /** One response alone; null: it is not there. */
  turn(owner: string, id: string): Promise<StoredTurn | null>;
  /** Keeps one, unless it is too large, or what it continues is gone. */
  keep(turn: StoredTurn): Promise<void>;
}

/** How much is kept. */
export interface ShelfLimits {
  /** Of each owner. */
  readonly countMax: number;
  /** Of each owner. */
  readonly bytesMax: number;
  /** Since its last use. */
  readonly keptMs: number;
}

/** All owners together have at most this many times the bytes of one. */
const SHARES = 8;
const EXPIRY_MS = 1000;
/** What a turn takes beside its texts. */
const TURN_BYTES = 1024;

/** A turn, with what stands on it. */
interface Kept {
  readonly turn: StoredTurn;
  readonly shelf: Shelf;
  readonly previous: Kept | null;
  readonly bytes: number;
  /** Turns that continue it. */
  followers: number;
  /** It can be asked for; otherwise it is there for its followers alone. */
  isFindable: boolean;
  usedMs: number;
}

/** What one owner has, the one used longest ago first. */
interface Shelf {
  readonly owner: string;
  readonly turns: Map<string, Kept>;
  bytes: number;
}

export class ResponseShelves implements ResponseStore {
  readonly #limits: ShelfLimits;
  readonly #nowMs: () => number;
  readonly #shelves = new Map<string, Shelf>();
  #bytes = 0;
  #nextExpiryMs = 0;

  constructor(limits: ShelfLimits, nowMs: () => number) {
    this.#limits = limits;
    this.#nowMs = nowMs;
  }

  /** Responses that can be asked for, of all owners, and all bytes. */
  get size(): { readonly count: number; readonly bytes: number } {
    let count = 0;
    for (const { turns } of this.#shelves.values()) count += turns.size;
    return { count, bytes: this.#bytes };
  }

  async conversation(
    owner: string,
    id: string,
    bytesMax: number,
  ): Promise<readonly StoredTurn[] | TooLarge | null> {
    const found = this.#use(owner, id);
    if (found === null) return null;
    const turns: StoredTurn[] = [];
    let bytes = 0;
    for (let at: Kept | null = found; at !== null; at = at.previous) {
      turns.push(at.turn);
      bytes += at.turn.input.byteLength + at.turn.response.byteLength;
    }
    return bytes > bytesMax ? { bytes } : turns.reverse();
  }

  async turn(owner: string, id: string): Promise<StoredTurn | null> {
    return this.find(owner, id);
  }

  async keep(turn: StoredTurn): Promise<void> {
    this.expire();
    const { owner, previousId } = turn;
    const { countMax, bytesMax } = this.#limits;
    const previous = previousId === null ? null : this.#use(owner, previousId);
    const bytes = TURN_BYTES + turn.input.byteLength + turn.response.byteLength;
    const isOrphan = previousId !== null && previous === null;
    if (isOrphan || countMax === 0 || bytes > bytesMax) return;
    this.#add(turn, previous, bytes);
    this.#evict(owner);
  }

  /** The response itself; null: it is not there. */
  find(owner: string, id: string): StoredTurn | null {
    return this.#use(owner, id)?.turn ?? null;
  }

  /** False: it was not there. */
  delete(owner: string, id: string): boolean {
    const kept = this.#use(owner, id);
    if (kept === null) return false;
    this.#drop(kept);
    return true;
  }

  /** Drops what was not used for too long; looks once a second. */
  expire(): void {
    const nowMs = this.#nowMs();
    if (nowMs < this.#nextExpiryMs) return;
    this.#nextExpiryMs = nowMs + EXPIRY_MS;
    const oldestMs = nowMs - this.#limits.keptMs;
    for (const { turns } of [...this.#shelves.values()]) {
      for (const kept of turns.values()) {
        if (kept.usedMs > oldestMs) break;
        this.#drop(kept);
      }
    }
  }

  #use(owner: string, id: string): Kept | null {
    const turns = this.#shelves.get(owner)?.turns;
    const kept = turns?.get(id);
    if (turns === undefined || kept === undefined) return null;
    const nowMs = this.#nowMs();
    if (kept.usedMs <= nowMs - this.#limits.keptMs) {
      this.#drop(kept);
      return null;
    }
    kept.usedMs = nowMs;
    turns.delete(id);
    turns.set(id, kept);
    return kept;
  }

  #add(given: StoredTurn, previous: Kept | null, bytes: number): void {
    const { owner, input, response } = given;
    // Copies: short buffers lie in larger ones, which would stay, and go along to other threads.
    const turn = { ...given, input: new Uint8Array(input), response: new Uint8Array(response) };
    const shelf = this.#shelves.get(owner) ?? { owner, turns: new Map(), bytes: 0 };
    this.#shelves.set(owner, shelf);
    const usedMs = this.#nowMs();
    const kept = { turn, shelf, previous, bytes, followers: 0, isFindable: true, usedMs };
    shelf.turns.set(turn.id, kept);
    shelf.bytes += bytes;
    this.#bytes += bytes;
    if (previous !== null) previous.followers++;
  }

  /** Down to the limits of the owner, then of all: who has most gives first. */
  #evict(owner: string): void {
    const { countMax, bytesMax } = this.#limits;
    const own = this.#shelves.get(owner);
    while (own !== undefined && (own.turns.size > countMax || own.bytes > bytesMax)) {
      this.#dropOldest(own);
    }
    while (this.#bytes > SHARES * bytesMax) this.#dropOldest(this.#largest());
  }

  #largest(): Shelf {
    const shelves = [...this.#shelves.values()];
    return shelves.reduce((most, shelf) => (shelf.bytes > most.bytes ? shelf : most));
  }

  #dropOldest({ turns }: Shelf): void {
    const [oldest] = turns.values();
    if (oldest !== undefined) this.#drop(oldest);
  }

  /** It is found no more; its text goes when nothing stands on it. */
  #drop(kept: Kept): void {
    kept.shelf.turns.delete(kept.turn.id);
    kept.isFindable = false;
    for (let at: Kept | null = kept; at !== null; at = at.previous) {
      if (at.isFindable || at.followers > 0) return;
      at.shelf.bytes -= at.bytes;
      this.#bytes -= at.bytes;
      if (at.shelf.turns.size === 0) this.#shelves.delete(at.shelf.owner);
      if (at.previous !== null) at.previous.followers--;
    }
  }
}
