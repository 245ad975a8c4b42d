/**
 * Load that several routers see together. A choice is made on what was last heard and booked at
 * once, without waiting: the answer brings the load of all workers for the choices that follow.
 */
import type { Member, SharedBid, SharedBooks, SharedLoad } from "#cluster/protocol";
import type { Reservation, Routed } from "#cluster/routing";

/** No bid of this cost wins against one of 0. */
const FAR_MS = 1e12;
/** Tokens between two words about held blocks. */
const RENEW_TOKENS = 64;

export interface SharedLoadsOptions {
  readonly books: SharedBooks;
  readonly members: () => Iterable<Member>;
  /** What all routers together have handed to a worker. */
  readonly onLoad: (workerId: string, load: SharedLoad) => void;
}

/** One request's part in the shared books. */
export interface SharedPart {
  /** More tokens have come. */
  tokens(): void;
  end(): void;
}

export class SharedLoads {
  readonly #options: SharedLoadsOptions;
  #serial = 0;

  constructor(options: SharedLoadsOptions) {
    this.#options = options;
  }

  routed({ worker, reservation }: Routed): SharedPart {
    const { books, members, onLoad } = this.#options;
    const id = `${++this.#serial}`;
    const own = bidOf(worker, 0, reservation);
    const others = [...members()].filter(({ info }) => info.id !== worker.id);
    const bids = [own, ...others.map(({ info }) => bidOf(info, FAR_MS, null))];
    books.reserve(id, bids).then(
      ({ loads }) => {
        for (const [at, load] of loads.entries()) {
          const bid = bids[at];
          if (bid !== undefined) onLoad(bid.worker, load);
        }
      },
      () => books.release(id), // own books go on alone
    );
    return partOf(books, id, reservation);
  }
}

function partOf(books: SharedBooks, id: string, reservation: Reservation): SharedPart {
  let told = -1;
  return {
    tokens: () => {
      if (told < 0) books.firstToken(id);
      else if (reservation.outputTokens - told < RENEW_TOKENS) return;
      else books.renew(id, reservation.heldBlocks);
      told = reservation.outputTokens;
    },
    end: () => books.release(id),
  };
}

function bidOf(
  { id, epoch }: Member["info"],
  costMs: number,
  reservation: Reservation | null,
): SharedBid {
  return {
    ...{ worker: id, epoch, costMs, perUncachedTokenMs: 0, perRequestMs: 0 },
    seen: { requests: 0, uncachedTokens: 0, heldBlocks: 0 },
    uncachedTokens: reservation?.uncachedTokens ?? 0,
    heldBlocks: reservation?.heldBlocks ?? 0,
  };
}
