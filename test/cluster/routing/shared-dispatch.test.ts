import { describe, expect, test } from "vitest";
import {
  Dispatcher,
  type DispatchRequest,
  type Member,
  type Membership,
  type Reservation,
  type SharedAnswer,
  type SharedBid,
  type SharedBooks,
  SharedDispatch,
  type SharedLoad,
  seededRng,
} from "#cluster";
import { SimClock } from "#simulator";
import { candidateOf } from "../../contracts/routing-policy.ts";

const WORKERS = ["a", "b", "c", "d"];

function fleet(): Membership {
  const members = WORKERS.map((id): [string, Member] => [
    id,
    { info: candidateOf({ id }).info, state: "ready" },
  ]);
  return {
    workers: new Map(members),
    heardMs: 0,
    listen: () => () => {},
    learnRole: () => {},
    close: async () => {},
  };
}

function requestOf(promptTokens: number): DispatchRequest {
  return {
    ...{ promptTokens, outputTokens: null, session: null, prefixHash: [1, 2] },
    ...{ tokens: null, salt: null, lora: null, model: "m", excluded: new Set<string>() },
  };
}

/** Books in memory, as the contract says them: one order, corrected costs, the least wins. */
class MemoryBooks implements SharedBooks {
  readonly held = new Map<string, SharedLoad & { readonly worker: string }>();
  isDown = false;

  async reserve(id: string, bids: readonly SharedBid[]): Promise<SharedAnswer> {
    if (this.isDown) throw new Error("down");
    const costs = bids.map((bid) => {
      const now = this.loadOf(bid.worker);
      const newTokens = now.uncachedTokens - bid.seen.uncachedTokens;
      const newRequests = now.requests - bid.seen.requests;
      return bid.costMs + bid.perUncachedTokenMs * newTokens + bid.perRequestMs * newRequests;
    });
    const chosen = costs.indexOf(Math.min(...costs));
    const { worker = "", uncachedTokens = 0, heldBlocks = 0 } = bids[chosen] ?? {};
    this.held.set(id, { worker, requests: 1, uncachedTokens, heldBlocks });
    return { chosen, loads: bids.map((bid) => this.loadOf(bid.worker)) };
  }

  firstToken(id: string): void {
    const entry = this.held.get(id);
    if (entry !== undefined) this.held.set(id, { ...entry, uncachedTokens: 0 });
  }

  renew(): void {}

  release(id: string): void {
    this.held.delete(id);
  }

  loadOf(worker: string): SharedLoad {
    const own = [...this.held.values()].filter((entry) => entry.worker === worker);
    return {
      requests: own.length,
      uncachedTokens: own.reduce((sum, entry) => sum + entry.uncachedTokens, 0),
      heldBlocks: own.reduce((sum, entry) => sum + entry.heldBlocks, 0),
    };
  }
}

function routers(count: number) {
  const clock = new SimClock();
  const books = new MemoryBooks();
  const all = Array.from({ length: count }, (_, at) => {
    const dispatcher = new Dispatcher({
      ...{ membership: fleet(), policy: "kv", clock, rng: seededRng(at + 1) },
      prefixes: {
        find: (_query, workers) => workers.map(() => null),
        routed: () => ({ computed: () => {}, dropped: () => {} }),
        served: () => {},
      },
    });
    return { dispatcher, shared: new SharedDispatch(dispatcher, books, `r${at}`) };
  });
  return { books, all };
}

describe("several routers", () => {
  test("[CL66] spread a burst as one router does: each sees the others' reservations", async () => {
    const { books, all } = routers(3);
    const routed = await Promise.all(
      Array.from({ length: 120 }, (_, at) => all[at % 3]?.shared.route(requestOf(2000))),
    );
    const loads = WORKERS.map((worker) => books.loadOf(worker).requests);
    expect(loads.reduce((sum, load) => sum + load, 0)).toBe(120);
    expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(3);
    for (const each of routed) if (each?.type === "routed") each.reservation.end("ended");
    expect(books.held.size).toBe(0);
    for (const { dispatcher } of all) expect(dispatcher.books.openCount).toBe(0);
  });

  test("[CL66] books that do not answer are done without, and nothing stays in them", async () => {
    const { books, all } = routers(2);
    books.isDown = true;
    const open: Reservation[] = [];
    for (let turn = 0; turn < 40; turn++) {
      const routed = await all[turn % 2]?.shared.route(requestOf(1000));
      if (routed?.type === "routed") open.push(routed.reservation);
    }
    expect(open).toHaveLength(40);
    expect(all.map(({ shared }) => shared.counts.alone)).toEqual([20, 20]);
    const counts = WORKERS.map((id) => open.filter(({ workerId }) => workerId === id).length);
    expect(Math.max(...counts)).toBeLessThanOrEqual(14);
    for (const reservation of open) reservation.end("failed");
    expect(books.held.size).toBe(0);
  });

  test("[CL66] a request that ended while the books were asked is released", async () => {
    const { books, all } = routers(1);
    const [router] = all;
    const pending = router?.shared.route(requestOf(500));
    for (const id of WORKERS) router?.dispatcher.books.left(id);
    const routed = await pending;
    expect(routed?.type).toBe("routed");
    if (routed?.type === "routed") routed.reservation.end("cancelled");
    expect(books.held.size).toBe(0);
  });
});
