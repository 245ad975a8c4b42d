/** Books of load that two routers keep in one Redis. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { RedisBooks, RedisLink, type SharedBid, type SharedLoad, seededRng } from "#cluster";
import { NO_REDIS, TestRedis } from "../../support/redis-server.ts";
import { until } from "../../support/until.ts";

const LEASE_MS = 400;
const NOTHING: SharedLoad = { requests: 0, uncachedTokens: 0, heldBlocks: 0 };

/** A bid for a worker that costs a millisecond a token, as seen without any load. */
function bid(worker: string, costMs: number, more: Partial<SharedBid> = {}): SharedBid {
  return {
    ...{ worker, epoch: "1", costMs, perUncachedTokenMs: 1, perRequestMs: 0, seen: NOTHING },
    ...{ uncachedTokens: 100, heldBlocks: 7 },
    ...more,
  };
}

describe.skipIf(NO_REDIS !== null)(`in Redis${NO_REDIS === null ? "" : ` (${NO_REDIS})`}`, () => {
  let redis: TestRedis;
  const closing: (() => Promise<unknown>)[] = [];
  beforeAll(async () => {
    redis = await TestRedis.start();
  });
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
    const client = redis.client();
    await client.flushall();
    client.disconnect();
  });
  afterAll(() => redis.close());

  /** A router's books; answers may take long here, since the machine is shared. */
  async function keep(router: string, deadlineMs = 5000) {
    const warnings: string[] = [];
    const link = new RedisLink({ url: redis.url, warn: (message) => warnings.push(message) });
    const books = new RedisBooks({ link, router, leaseMs: LEASE_MS, deadlineMs });
    closing.push(() => books.close());
    await until("it is connected", () => link.isReady);
    return { books, link, warnings };
  }

  /** What all routers together have at a worker: a bid that is taken back at once tells. */
  async function loadOf(books: RedisBooks, worker: string): Promise<SharedLoad> {
    const { loads } = await books.reserve("look", [
      bid(worker, 0, { uncachedTokens: 0, heldBlocks: 0 }),
    ]);
    books.release("look");
    const { requests = 1, uncachedTokens = 0, heldBlocks = 0 } = loads[0] ?? {};
    return { requests: requests - 1, uncachedTokens, heldBlocks };
  }

  test("[CL52] two routers that saw nothing do not pile up on the worker that both prefer", async () => {
    const [one, two] = [await keep("one"), await keep("two")];
    const bids = [bid("a", 0), bid("b", 10), bid("c", 20)];
    const chosen: number[] = [];
    for (let turn = 0; turn < 3; turn++) {
      chosen.push((await one.books.reserve(`1-${turn}`, bids)).chosen);
      chosen.push((await two.books.reserve(`2-${turn}`, bids)).chosen);
    }
    expect(chosen).toEqual([0, 1, 2, 0, 1, 2]);
  });

  test("[CL52] an answer has the loads of all, with what was booked", async () => {
    const [one, two] = [await keep("one"), await keep("two")];
    await one.books.reserve("1", [bid("a", 0)]);
    const { chosen, loads } = await two.books.reserve("2", [bid("b", 500), bid("a", 0)]);
    expect(chosen).toBe(1);
    expect(loads).toEqual([NOTHING, { requests: 2, uncachedTokens: 200, heldBlocks: 14 }]);
  });

  test("[CL52] a book of which Redis answers late is still a book at the next sync", async () => {
    const { books } = await keep("one");
    redis.signal("SIGSTOP");
    const answer = books.reserve("1", [bid("a", 0)]);
    await sleep(2 * LEASE_MS); // syncs that find nothing booked
    redis.signal("SIGCONT");
    await answer;
    await sleep(2 * LEASE_MS);
    expect(await loadOf(books, "a")).toEqual({ requests: 1, uncachedTokens: 100, heldBlocks: 7 });
    books.release("1");
    expect(await loadOf(books, "a")).toEqual(NOTHING);
  });

  test("[CL52] first token, renewal and release change what others see", async () => {
    const [one, two] = [await keep("one"), await keep("two")];
    await one.books.reserve("1", [bid("a", 0)]);
    one.books.firstToken("1");
    one.books.renew("1", 12);
    // A look of the other one may still be there: each is taken back behind its answer.
    const seen = () => loadOf(two.books, "a");
    await expect.poll(seen).toEqual({ requests: 1, uncachedTokens: 0, heldBlocks: 12 });
    one.books.release("1");
    one.books.release("1");
    await expect.poll(seen).toEqual(NOTHING);
  });

  test("[CL52] a worker that started anew has empty books", async () => {
    const { books } = await keep("one");
    await books.reserve("1", [bid("a", 0)]);
    const { loads } = await books.reserve("2", [bid("a", 0, { epoch: "2" })]);
    expect(loads).toEqual([{ requests: 1, uncachedTokens: 100, heldBlocks: 7 }]);
  });

  test("[CL54] the load of a router that died is no load any more", async () => {
    const [one, two] = [await keep("one"), await keep("two")];
    await one.books.reserve("1", [bid("a", 0)]);
    await two.books.reserve("2", [bid("a", 0)]);
    one.link.close(); // As a killed process does.
    let load = await loadOf(two.books, "a");
    expect(load.requests).toBe(2);
    const looks = setInterval(async () => {
      load = await loadOf(two.books, "a").catch(() => load);
    }, 20);
    await until("its load is returned", () => load.requests === 1);
    clearInterval(looks);
    expect(load).toEqual({ requests: 1, uncachedTokens: 100, heldBlocks: 7 });
  });

  test("[CL54] the load of a router that lives stays, however long its requests take", async () => {
    const [one, two] = [await keep("one"), await keep("two")];
    await one.books.reserve("1", [bid("a", 0)]);
    await sleep(4 * LEASE_MS);
    expect(await loadOf(two.books, "a")).toMatchObject({ requests: 1, uncachedTokens: 100 });
  });

  test("[CL53] books that do not answer in time are done without, and hold nothing", async () => {
    const { books } = await keep("one", 2);
    redis.signal("SIGSTOP");
    const refused = await books.reserve("1", [bid("a", 0)]).catch((error) => String(error));
    books.release("1");
    redis.signal("SIGCONT");
    expect(refused).toBe(
      "EngineError: Cannot reach the shared books: Redis must answer, current state is no answer " +
        "within 2 ms",
    );
    const two = await keep("two");
    let load: SharedLoad | null = null;
    const looks = setInterval(async () => {
      load = await loadOf(two.books, "a").catch(() => load);
    }, 20);
    await until("the late answer is taken back", () => load?.requests === 0);
    clearInterval(looks);
  });

  test.each([1, 2, 3])(
    "[CL52] at the end of all requests all books are at zero (seed %i)",
    async (seed) => {
      const rng = seededRng(seed);
      const keepers = [await keep("one"), await keep("two"), await keep("three")];
      const workers = ["a", "b", "c", "d"];
      const running: { books: RedisBooks; id: string }[] = [];
      const asked: Promise<unknown>[] = [];
      for (let turn = 0; turn < 600; turn++) {
        const { books } = keepers[Math.floor(rng.next() * 3)] ?? { books: null };
        const dice = rng.next();
        if (books !== null && dice < 0.5) {
          const id = `${turn}`;
          asked.push(
            books.reserve(
              id,
              workers.map((worker) => bid(worker, 100 * rng.next())),
            ),
          );
          running.push({ books, id });
        } else if (running.length > 0) {
          const [taken] = running.splice(Math.floor(rng.next() * running.length), 1);
          if (dice < 0.7) taken?.books.firstToken(taken.id);
          taken?.books.renew(taken.id, Math.floor(20 * rng.next()));
          taken?.books.release(taken.id);
        }
        if (turn % 50 === 0) await sleep(LEASE_MS / 10);
      }
      await Promise.all(asked);
      for (const { books, id } of running) books.release(id);
      // A connection answers in order: behind this answer all that it had sent is done.
      for (const { link } of keepers) await link.client.ping();
      const [{ books }] = keepers as [(typeof keepers)[number]];
      for (const worker of workers) expect(await loadOf(books, worker)).toEqual(NOTHING);
    },
  );
});

test.skipIf(NO_REDIS !== null)(
  "[CL53] books of a Redis that came back empty are whole again",
  async () => {
    const redis = await TestRedis.start();
    const link = new RedisLink({ url: redis.url, warn: () => {} });
    const books = new RedisBooks({ link, router: "one", leaseMs: LEASE_MS, deadlineMs: 5000 });
    await until("it is connected", () => link.isReady);
    await books.reserve("1", [bid("a", 0)]);
    await redis.kill();
    await expect(books.reserve("2", [bid("a", 0)])).rejects.toThrow(
      /^Cannot reach the shared books/,
    );
    await redis.start();
    await until("it is connected again", () => link.isReady);
    const { loads } = await books.reserve("3", [bid("a", 0)]);
    expect(loads).toEqual([{ requests: 2, uncachedTokens: 200, heldBlocks: 14 }]);
    await books.close();
    await redis.close();
  },
);
