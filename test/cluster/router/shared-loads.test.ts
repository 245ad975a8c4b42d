import { describe, expect, test } from "vitest";
import {
  LoadBooks,
  type Member,
  type Routed,
  type SharedBid,
  type SharedBooks,
  type SharedLoad,
} from "#cluster";
import { SharedLoads } from "../../../src/cluster/router/shared-loads.ts";
import { NO_REDIS, TestRedis } from "../../support/redis-server.ts";
import { clientsOf, closeRouters, routeTo } from "../../support/router-fleet.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeRouters();
closeToyServers();

/** Books that remember what they were told. */
class ToldBooks implements SharedBooks {
  readonly told: unknown[] = [];
  readonly #fails: boolean;

  constructor(fails = false) {
    this.#fails = fails;
  }

  async reserve(id: string, bids: readonly SharedBid[]) {
    this.told.push(["reserve", id, bids.map(({ worker, costMs }) => [worker, costMs > 0])]);
    if (this.#fails) throw new Error("away");
    const load = { requests: 4, uncachedTokens: 40, heldBlocks: 9 };
    return { chosen: 0, loads: bids.map(() => load) };
  }

  firstToken(id: string): void {
    this.told.push(["firstToken", id]);
  }

  renew(id: string, heldBlocks: number): void {
    this.told.push(["renew", id, heldBlocks]);
  }

  release(id: string): void {
    this.told.push(["release", id]);
  }
}

function member(id: string): Member {
  const info = { id, epoch: "1", url: id, kind: "perigee", version: "", models: ["m"] } as const;
  return {
    info: { ...info, fingerprint: null, contextTokensMax: 0, kv: null },
    state: "ready",
  };
}

function routedTo({ info }: Member): Routed {
  const books = new LoadBooks({ clock: { nowMs: () => 0 } });
  const reservation = books.reserve({
    ...{ workerId: info.id, epoch: info.epoch, promptTokens: 32, uncachedTokens: 32 },
    blockTokens: 16,
  });
  const choice = { chosen: 0, costs: [], reason: "load" };
  const rest = { source: null, promisedTokens: 0, bestTokens: 0, served: () => {} };
  return { type: "routed", worker: info, reservation, choice, ...rest };
}

describe("one request's part in shared books", () => {
  const members = [member("a"), member("b")];

  test("[CL94] it is booked at the chosen worker, told on, and released; all loads come back", async () => {
    const books = new ToldBooks();
    const loads: string[] = [];
    const onLoad = (id: string, load: SharedLoad) => loads.push(`${id} ${load.requests}`);
    const routed = routedTo(member("b"));
    const part = new SharedLoads({ books, members: () => members, onLoad }).routed(routed);
    await Promise.resolve();
    for (const count of [1, 10, 60]) {
      routed.reservation.tokens(count);
      part.tokens();
    }
    part.end();
    expect(books.told).toEqual([
      [
        "reserve",
        "1",
        [
          ["b", false],
          ["a", true],
        ],
      ],
      ["firstToken", "1"],
      ["renew", "1", 7],
      ["release", "1"],
    ]);
    expect(loads).toEqual(["b 4", "a 4"]);
  });

  test("[CL94] where the books are away nothing waits, and nothing stays booked", async () => {
    const books = new ToldBooks(true);
    const shared = new SharedLoads({ books, members: () => members, onLoad: () => {} });
    shared.routed(routedTo(member("a")));
    await expect.poll(() => books.told.at(-1)).toEqual(["release", "1"]);
  });
});

interface ServerInfo {
  readonly workers: readonly {
    readonly id: string;
    readonly books: { readonly requests: number };
  }[];
}

describe.skipIf(NO_REDIS !== null)("two routers", () => {
  test("[CL94] each sees what the other has handed out, and goes on alone without Redis", async () => {
    const redis = await TestRedis.start();
    try {
      const slow = { msPerToken: 50, reply: () => "z".repeat(400) };
      const workers = await Promise.all([serveToy(slow), serveToy(slow)]);
      const urls = workers.map(({ server }) => server.url);
      const options = { redis: redis.url, policy: "least-loaded" } as const;
      const [one, two] = await Promise.all([routeTo(urls, options), routeTo(urls, options)]);
      const stop = new AbortController();
      const body = { prompt: "hello", stream: true, max_tokens: 400 };
      const send = (router: typeof one) =>
        clientsOf(router).post("/v1/completions", body, { signal: stop.signal });
      for (let turn = 0; turn < 6; turn++) {
        await send(turn % 2 === 0 ? one : two);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      const running = () => workers.map(({ model }) => model.runningCount);
      expect(running().reduce((sum, count) => sum + count)).toBe(6);
      // Alone, each router would see its own three requests only.
      const info = (await (await clientsOf(two).get("/server_info")).json()) as ServerInfo;
      const booked = info.workers.reduce((sum, { books }) => sum + books.requests, 0);
      expect(booked).toBeGreaterThan(3);
      await redis.kill();
      expect(
        (await clientsOf(one).post("/v1/completions", { prompt: "x", max_tokens: 2 })).status,
      ).toBe(200);
      stop.abort();
      await expect.poll(() => one.openReservations + two.openReservations).toBe(0);
    } finally {
      await redis.close();
    }
  });

  test("[CL117] a Redis that is stopped holds up no request, and its books come to zero", {
    timeout: 30_000,
  }, async () => {
    const redis = await TestRedis.start();
    const client = redis.client();
    try {
      const workers = await Promise.all([serveToy({ msPerToken: 1 }), serveToy()]);
      const urls = workers.map(({ server }) => server.url);
      const router = await routeTo(urls, { redis: redis.url });
      const send = async (count: number) => {
        const ask = () =>
          clientsOf(router).post("/v1/completions", { prompt: "hello", max_tokens: 20 });
        const answers = await Promise.all(Array.from({ length: count }, ask));
        expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
        await Promise.all(answers.map((answer) => answer.text()));
      };
      const books = async () => {
        const keys = await client.keys("perigee:books:worker:*");
        const values = await Promise.all(keys.map((key) => client.hvals(key)));
        return { keys: keys.length, booked: values.flat().map(String) };
      };
      await send(4);
      expect((await books()).keys).toBeGreaterThan(0);
      redis.signal("SIGSTOP");
      await send(24);
      expect(router.openReservations).toBe(0);
      redis.signal("SIGCONT");
      await send(4);
      const isZero = (text: string) => /^0(\D0)*$/.test(text);
      await expect
        .poll(async () => (await books()).booked.filter((text) => !isZero(text)), {
          timeout: 10_000,
        })
        .toEqual([]);
    } finally {
      client.disconnect();
      await redis.close();
    }
  });
});
