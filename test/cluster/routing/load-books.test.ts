import { describe, expect, test } from "vitest";
import {
  LoadBooks,
  type Reservation,
  type ReservationEnd,
  seededRng,
  type WorkerSpeeds,
} from "#cluster";

const EMPTY = { requests: 0, uncachedTokens: 0, uncachedPairs: 0, heldBlocks: 0, decoding: 0 };

function speedsOf(prefillMsPerToken: number): WorkerSpeeds {
  return { prefillMsPerToken, decodeMs: () => 1, loadMsPerToken: [0, 0] };
}

const FAST = speedsOf(0.1);
/** So slow that nothing shrinks while a test runs. */
const SLOW = speedsOf(1e12);
const ENDS: readonly ReservationEnd[] = ["ended", "failed", "cancelled", "timed-out"];

class HandClock {
  ms = 0;
  nowMs(): number {
    return this.ms;
  }
}

function booksOf(silenceMsMax?: number) {
  const clock = new HandClock();
  const books = new LoadBooks({ clock, ...(silenceMsMax === undefined ? {} : { silenceMsMax }) });
  return { clock, books };
}

const claim = (workerId = "a", uncachedTokens = 600, epoch = "1") => ({
  ...{ workerId, epoch, promptTokens: 1000, uncachedTokens, blockTokens: 16 },
});

const report = (load: object) => ({
  ...{ runningRequests: 0, waitingRequests: 0, blocksUsed: 0, uncachedTokens: 0 },
  ...load,
});

describe("a reservation", () => {
  test("is load at once, less with its first token, more with each token, none at its end", () => {
    const { books } = booksOf();
    const reservation = books.reserve(claim());
    expect(books.viewOf("a", FAST)).toMatchObject({
      ...{ requests: 1, uncachedTokens: 600, heldBlocks: 63, decoding: 0 },
    });
    reservation.firstToken();
    expect(books.viewOf("a", FAST)).toMatchObject({
      ...{ requests: 1, uncachedTokens: 0, heldBlocks: 63, decoding: 1 },
    });
    reservation.tokens(24);
    expect(books.viewOf("a", FAST).heldBlocks).toBe(64);
    expect(reservation.end("ended")).toBe(true);
    expect(books.viewOf("a", FAST)).toEqual(EMPTY);
  });

  test("[CL266] tokens that are told late make stretches of the time at which they came", () => {
    const clock = new HandClock();
    const stretches: (readonly [number, number])[] = [];
    const books = new LoadBooks({
      clock,
      observer: {
        prefilled: () => {},
        decoded: (_worker, ms, tokens) => stretches.push([ms, tokens]),
      },
    });
    const told: (readonly [number, number, boolean])[] = [];
    const reservation = books.reserve(claim());
    reservation.watch({ tokens: (...words) => told.push(words) });
    reservation.tokens(1);
    clock.ms = 500;
    // The last of them came 100 ms ago.
    reservation.tokens(20, 100, true);
    clock.ms = 600;
    reservation.tokens(20);
    expect(stretches).toEqual([
      [400, 21],
      [200, 20],
    ]);
    expect(told).toEqual([
      [1, 0, false],
      [20, 100, true],
      [20, 0, false],
    ]);
  });

  test("shrinks while its worker computes it; those behind it wait", () => {
    const { books, clock } = booksOf();
    const first = books.reserve(claim());
    clock.ms = 20;
    books.reserve(claim());
    expect(books.viewOf("a", FAST).uncachedTokens).toBe(1000);
    clock.ms = 1000;
    expect(books.viewOf("a", FAST).uncachedTokens).toBe(600);
    first.firstToken();
    clock.ms = 1010;
    expect(books.viewOf("a", FAST).uncachedTokens).toBe(500);
  });

  test.for([1, 2, 3, 4, 5, 6])(
    "[CL62] random lives end at zero, whoever ends them and how often (seed %i)",
    (seed) => {
      const rng = seededRng(seed);
      const below = (limit: number) => Math.floor(rng.next() * limit);
      const { books, clock } = booksOf(500);
      const live: Reservation[] = [];
      let epoch = 1;
      for (let step = 0; step < 4000; step++) {
        clock.ms += below(5);
        const worker = `w${below(4)}`;
        const reservation = live[below(live.length)];
        const act = below(12);
        if (act < 4) live.push(books.reserve(claim(worker, below(2000), `${epoch}`)));
        else if (act < 6) reservation?.firstToken();
        else if (act < 8) reservation?.tokens(below(40));
        else if (act < 10) reservation?.end(ENDS[below(ENDS.length)] ?? "ended");
        else if (act === 10 && below(20) === 0) epoch++;
        else if (act === 11 && below(20) === 0) books.left(worker);
        else if (below(20) === 0) books.expire();
        for (const id of ["w0", "w1", "w2", "w3"]) {
          const view = books.viewOf(id, FAST);
          for (const count of Object.values(view)) expect(count).toBeGreaterThanOrEqual(0);
          expect(view.decoding).toBeLessThanOrEqual(view.requests);
        }
        if (live.length > 60) for (const each of live.splice(0, 30)) each.end("failed");
      }
      const released = live.filter((each) => each.end("ended")).length;
      expect(released).toBeGreaterThan(0);
      expect(live.filter((each) => each.end("ended"))).toEqual([]);
      expect(books.openCount).toBe(0);
      for (const id of ["w0", "w1", "w2", "w3"]) expect(books.viewOf(id, FAST)).toEqual(EMPTY);
    },
  );

  test("[CL62] one that its owner forgot is released and counted", () => {
    const { books, clock } = booksOf(1000);
    const lost = books.reserve(claim());
    const kept = books.reserve(claim());
    clock.ms = 900;
    kept.tokens(1);
    clock.ms = 1500;
    expect(books.expire()).toBe(1);
    expect(books.leakedCount).toBe(1);
    expect(lost.phase).toBe("over");
    expect(books.viewOf("a", FAST).requests).toBe(1);
  });
});

describe("other routers' load", () => {
  test("[CL63] is what a worker reports beyond this router's books, and is void with time", () => {
    const { books, clock } = booksOf();
    const own = books.reserve(claim());
    const load = report({ runningRequests: 3, waitingRequests: 2, uncachedTokens: 5000 });
    books.report("a", { ...load, blocksUsed: 0.5 }, 1000);
    expect(books.viewOf("a", SLOW)).toMatchObject({
      ...{ requests: 5, uncachedTokens: 5000, heldBlocks: 500, decoding: 3 },
    });
    own.end("ended");
    expect(books.viewOf("a", SLOW).requests).toBe(4);
    clock.ms = 20_000;
    expect(books.viewOf("a", SLOW)).toEqual(EMPTY);
  });

  test("[CL63] a request that ended while the report was under way is not another router's", () => {
    const { books } = booksOf();
    books.reserve(claim()).end("ended");
    books.report("a", report({ runningRequests: 1, uncachedTokens: 600 }), 1000);
    expect(books.viewOf("a", FAST)).toEqual(EMPTY);
  });

  test("[CL63] a new epoch begins empty, and old reservations change nothing of it", () => {
    const { books } = booksOf();
    const old = books.reserve(claim("a", 600, "1"));
    const young = books.reserve(claim("a", 400, "2"));
    expect(books.viewOf("a", SLOW)).toMatchObject({ requests: 1, uncachedTokens: 400 });
    old.tokens(100);
    old.end("ended");
    expect(books.viewOf("a", SLOW)).toMatchObject({ requests: 1, uncachedTokens: 400 });
    young.end("ended");
    expect(books.viewOf("a", SLOW)).toEqual(EMPTY);
  });

  test("[CL63] shared books say all routers' load, this one's included", () => {
    const { books } = booksOf();
    books.reserve(claim());
    books.shared("a", { requests: 4, uncachedTokens: 2000, heldBlocks: 100 });
    expect(books.viewOf("a", SLOW)).toMatchObject({ requests: 4, uncachedTokens: 2000 });
  });
});
