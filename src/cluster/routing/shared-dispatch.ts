import type { SharedAnswer, SharedBid, SharedBooks } from "#cluster/protocol";
import type { DispatchRequest, Routed, Unrouted, Weighed } from "./dispatch-request.ts";
import type { Dispatcher } from "./dispatcher.ts";
import { prefixPlan } from "./kv-cost.ts";
import { heldTokens } from "./load.ts";
import type { Reservation } from "./reservation.ts";

/**
 * Routes beside other routers. The request is booked here at once, where this router alone would
 * send it; then the shared books, which see all routers' reservations in one order, may move it.
 * Where they do not answer in time, the first choice stands.
 */
export class SharedDispatch {
  readonly #dispatcher: Dispatcher;
  readonly #books: SharedBooks;
  readonly #router: string;
  #count = 0;
  #alone = 0;
  #moved = 0;

  /** `router`: names this one among all. */
  constructor(dispatcher: Dispatcher, books: SharedBooks, router: string) {
    this.#dispatcher = dispatcher;
    this.#books = books;
    this.#router = router;
  }

  /** Requests that the shared books did not answer for, and those that they moved. */
  get counts(): { readonly alone: number; readonly moved: number } {
    return { alone: this.#alone, moved: this.#moved };
  }

  async route(request: DispatchRequest): Promise<Routed | Unrouted> {
    const weighed = this.#dispatcher.weigh(request);
    if (weighed.type === "unrouted") return weighed;
    const bids = this.#bidsOf(weighed);
    const first = this.#dispatcher.book(weighed, weighed.choice.chosen);
    if (first.type === "unrouted") return first;
    const id = `${this.#router} ${this.#count++}`;
    const answer = await this.#ask(id, bids);
    if (answer === null) return first;
    const routed = this.#follow(weighed, first, bids[answer.chosen]);
    this.#learn(bids, answer);
    if (routed.type === "routed") this.#keep(id, routed.reservation);
    else this.#books.release(id);
    return routed;
  }

  async #ask(id: string, bids: readonly SharedBid[]): Promise<SharedAnswer | null> {
    try {
      return await this.#books.reserve(id, bids);
    } catch {
      // Counted, and shown by it: whatever the books fail of, requests go on without them.
      this.#alone++;
      this.#books.release(id);
      return null;
    }
  }

  /** Where the books want it, unless that worker has gone since. */
  #follow(weighed: Weighed, first: Routed, bid: SharedBid | undefined): Routed | Unrouted {
    const chosen = weighed.candidates.findIndex(({ info }) => info.id === bid?.worker);
    if (chosen < 0 || chosen === weighed.choice.chosen) return first;
    first.reservation.end("moved");
    this.#moved++;
    return this.#dispatcher.book(weighed, chosen);
  }

  #learn(bids: readonly SharedBid[], { loads }: SharedAnswer): void {
    for (const [at, { worker }] of bids.entries()) {
      const load = loads[at];
      if (load !== undefined) this.#dispatcher.books.shared(worker, load);
    }
  }

  #keep(id: string, reservation: Reservation): void {
    if (reservation.phase === "over") {
      this.#books.release(id);
      return;
    }
    reservation.watch({
      firstToken: () => this.#books.firstToken(id),
      grew: (heldBlocks) => this.#books.renew(id, heldBlocks),
      end: () => this.#books.release(id),
    });
  }

  /** A policy that weighs nothing bids for its choice alone. */
  #bidsOf({ request, candidates, choice }: Weighed): SharedBid[] {
    const all = candidates.map((candidate, at): SharedBid => {
      const { info, speeds, blockTokens } = candidate;
      const { requests } = candidate.books;
      const tokens = heldTokens(candidate);
      // What was booked in full, before time made it less: the shared books count so.
      const booked = this.#dispatcher.books.viewOf(info.id, null);
      return {
        worker: info.id,
        epoch: info.epoch,
        costMs: choice.costs[at]?.cost ?? 0,
        perUncachedTokenMs: speeds.prefillMsPerToken,
        perRequestMs: Math.max(
          0,
          speeds.decodeMs(requests + 1, tokens) - speeds.decodeMs(requests, tokens),
        ),
        seen: {
          requests: booked.requests,
          uncachedTokens: booked.uncachedTokens,
          heldBlocks: booked.heldBlocks,
        },
        uncachedTokens: prefixPlan(request, candidate).uncachedTokens,
        heldBlocks: Math.ceil(request.promptTokens / Math.max(blockTokens, 1)),
      };
    });
    return choice.costs.length > 0 ? all : all.slice(choice.chosen, choice.chosen + 1);
  }
}
