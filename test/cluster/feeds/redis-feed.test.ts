import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { feedFor } from "../../../src/cluster/feeds/feed-for.ts";
import { streamKey } from "../../../src/cluster/feeds/redis-entry.ts";
import { RedisPublisher } from "../../../src/cluster/feeds/redis-publisher.ts";
import { RedisStreams } from "../../../src/cluster/feeds/redis-streams.ts";
import { CacheHistory } from "../../support/cache-history.ts";
import { ChangeMirror, expectedLines } from "../../support/change-mirror.ts";
import { sized } from "../../support/full.ts";
import { stored, storedBlock } from "../../support/kv-events.ts";
import { NO_REDIS, TestRedis } from "../../support/redis-server.ts";
import { closeToyServers, serveToy, type ToyServer } from "../../support/toy-server.ts";
import { workerInfo } from "../../support/worker-info.ts";

closeToyServers();

const EVENTS = sized(10_000, 100_000);
const SCOPE = { model: "toy", blockTokens: 4 };
const POLL = { timeout: 15_000, interval: 5 };

const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of closing.splice(0).reverse()) await each.close();
});

/** Closed after each test, in turn. */
function kept<Closing extends { close(): Promise<void> }>(each: Closing): Closing {
  closing.push(each);
  return each;
}

async function startRedis(): Promise<TestRedis> {
  const redis = await TestRedis.start();
  closing.push({ close: async () => void (await redis.close()) });
  return redis;
}

/** A worker, its events in Redis, and a router's feed of it. */
async function fleet(
  redis: TestRedis,
  { batchesMax = 10_000, epoch = "1", bufferMax = 2000, awayMs = 60_000 } = {},
) {
  const toy = await serveToy({ eventBufferMax: bufferMax, eventStreamId: `stream${epoch}` });
  const key = streamKey("worker-1", epoch);
  const lines: string[] = [];
  const warn = (line: string) => void lines.push(line);
  kept(
    new RedisPublisher(toy.model.kvEvents, { url: redis.url, key, scope: SCOPE, warn, batchesMax }),
  );
  const streams = kept(new RedisStreams(redis.url, warn, { awayMs }));
  return { toy, key, lines, streams, mirror: follow(toy, key, streams) };
}

function follow(toy: ToyServer, stream: string, redis: RedisStreams): ChangeMirror {
  const kv = { blockTokens: 4, blocks: [160, 80], groupWindows: [null], stream };
  const mirror = new ChangeMirror();
  const feed = feedFor(workerInfo({ url: toy.server.url, kv }), { redis, retryMs: [5, 50] });
  if (feed === null) throw new Error("The worker announces its cache");
  feed.start(mirror);
  kept(feed);
  return mirror;
}

const skip = { skip: NO_REDIS !== null };

test("[CL27] a tree is followed over trims and a Redis that comes back empty", skip, async () => {
  const redis = await startRedis();
  const { toy, mirror, lines } = await fleet(redis, { batchesMax: 40, bufferMax: 500 });
  const { cache } = toy.model;
  const history = new CacheHistory(21);
  cache.blocks = () => history.snapshot().blocks;
  let events = 0;
  let restarts = 0;
  for (let step = 1; events < EVENTS; step++) {
    for (const { event } of history.step()) {
      events++;
      if (event.type !== "created") cache.queue(event);
    }
    cache.flush();
    // Now and then no reader gets time: the worker's own log overflows.
    if (step % 1000 < 800 && step % 4 === 0) await turn();
    if (step % 1200 === 0) {
      await redis.kill();
      restarts++;
      setTimeout(() => void redis.start(), 50);
    }
  }
  await expect.poll(() => lines.at(-1) ?? "", POLL).toContain("answers again");
  const truth = expectedLines(history.snapshot().blocks, SCOPE);
  await expect.poll(() => mirror.lines(), POLL).toEqual(truth);
  expect(restarts).toBeGreaterThan(0);
  expect(mirror.resets.length).toBeGreaterThan(1);
  expect(mirror.orphans).toBe(0);
});

test("[CL27] many readers of one stream arrive at the same, one snapshot each", skip, async () => {
  const redis = await startRedis();
  const { toy, key, streams, mirror } = await fleet(redis, { bufferMax: 50_000 });
  const others = [1, 2, 3].map(() => follow(toy, key, streams));
  const history = new CacheHistory(8);
  await expect
    .poll(() => [mirror, ...others].every(({ resets }) => resets.length === 1), POLL)
    .toBe(true);
  for (let step = 0; step < 2000; step++) {
    for (const { event } of history.step()) {
      if (event.type !== "created") toy.model.cache.queue(event);
    }
    toy.model.cache.flush();
    if (step % 10 === 0) await turn();
  }
  const truth = expectedLines(history.snapshot().blocks, SCOPE);
  for (const each of [mirror, ...others]) {
    await expect.poll(() => each.lines(), POLL).toEqual(truth);
    expect(each.resets).toEqual(["the worker sent a snapshot"]);
  }
});

test(
  "[CL27] entries that a snapshot contains in part are applied from there on",
  skip,
  async () => {
    const redis = await startRedis();
    const { toy, key, streams } = await fleet(redis);
    const { cache } = toy.model;
    // One batch of three events, of which the snapshot has the first two.
    cache.queue(stored(null, 1n));
    cache.queue(stored(null, 2n));
    cache.queue(stored(null, 3n));
    cache.flush();
    await sleep(100);
    const nextId = toy.model.kvEvents.nextId;
    const whole = toy.model.kvEvents.snapshot;
    const block = (hash: bigint) => ({
      ...{ hash, tokenIds: [1, 2, 3, 4], level: 0 as const, priority: 35, multimodalKeys: [] },
      ...{ loraId: null, cacheSalt: null, parentHash: null },
    });
    toy.model.kvEvents.snapshot = async () => ({
      nextId: nextId - 1,
      blocksPerLevel: [64],
      blocks: [block(1n), block(2n)],
    });
    const mirror = follow(toy, key, streams);
    await expect.poll(() => mirror.size, POLL).toBe(3);
    toy.model.kvEvents.snapshot = whole;
    cache.emit({ type: "removed", hashes: [1n, 2n] });
    await expect.poll(() => mirror.size, POLL).toBe(1);
  },
);

test("[CL27] a Redis that is away is said once, and what is known stays", skip, async () => {
  const redis = await startRedis();
  const { toy, mirror, lines } = await fleet(redis);
  await expect.poll(() => mirror.resets.length, POLL).toBe(1);
  toy.model.cache.emit(stored(null, 1n));
  await expect.poll(() => mirror.size, POLL).toBe(1);
  await redis.kill();
  await sleep(500);
  // The publisher's connection and the reader's.
  expect(lines.filter((line) => line.startsWith("Cannot reach Redis"))).toHaveLength(2);
  expect(mirror.size).toBe(1);
  await redis.start();
  await expect.poll(() => lines.filter((line) => line.includes("again")).length, POLL).toBe(4);
  toy.model.cache.emit(stored(null, 2n));
  await expect.poll(() => mirror.size, POLL).toBe(2);
});

test(
  "[CL27] entries of another kind are refused, and a snapshot tells the truth",
  skip,
  async () => {
    const redis = await startRedis();
    const { toy, key, mirror } = await fleet(redis);
    await expect.poll(() => mirror.resets.length, POLL).toBe(1);
    const client = redis.client();
    await expect.poll(() => client.xlen(key), POLL).toBe(1);
    await client.xadd(key, "900000-0", "hello", "world");
    client.disconnect();
    await expect
      .poll(() => mirror.resets.some((reason) => reason.includes("first must be")), POLL)
      .toBe(true);
    toy.model.cache.emit(stored(null, 1n));
    toy.model.cache.blocks = () => [{ ...storedBlock(1n), parentHash: null }];
    await expect.poll(() => mirror.size, POLL).toBe(1);
  },
);

/** Numbers of stored events that are told one after the other, each below the last. */
function teller({ toy, mirror }: { toy: ToyServer; mirror: ChangeMirror }) {
  let told = 0;
  return async (count: number) => {
    // The toy's snapshot is empty: what is told before it would be missing.
    await expect.poll(() => mirror.resets.length, POLL).toBe(1);
    for (let at = 0; at < count; at++) toy.model.cache.emit(stored(null, BigInt(++told)));
    await expect.poll(() => mirror.size, POLL).toBe(told);
  };
}

test(
  "[CL115] while Redis is away the worker itself is followed, and Redis again when it is back",
  skip,
  async () => {
    const redis = await startRedis();
    const of = await fleet(redis, { awayMs: 200, bufferMax: 50 });
    const tell = teller(of);
    await tell(3);
    for (let round = 0; round < 3; round++) {
      await redis.kill();
      await tell(30); // Nothing but the worker can tell.
      await redis.start();
      await expect.poll(() => of.lines.at(-1) ?? "", POLL).toContain("answers again");
      await tell(30);
      // By Redis: what is written there is read.
      const client = redis.client();
      await expect.poll(() => client.xlen(of.key), POLL).toBeGreaterThan(0);
      client.disconnect();
    }
    expect(of.lines.some((line) => line.includes("are read from the workers"))).toBe(true);
    // Events have one number in both: nothing was forgotten in between.
    expect(of.mirror.resets).toEqual(["the worker sent a snapshot"]);
    await of.toy.server.close();
    await redis.kill();
  },
);

test("[CL115] a Redis that is silent is left, too", { ...skip, timeout: 30_000 }, async () => {
  const redis = await startRedis();
  const of = await fleet(redis, { awayMs: 200 });
  const tell = teller(of);
  await tell(2);
  redis.signal("SIGSTOP");
  await tell(2);
  redis.signal("SIGCONT");
  await tell(2);
  expect(of.mirror.resets).toEqual(["the worker sent a snapshot"]);
});

test("[CL115] a Redis that comes back empty gets the last entry again", skip, async () => {
  const redis = await startRedis();
  const { toy, key, mirror } = await fleet(redis);
  await expect.poll(() => mirror.resets.length, POLL).toBe(1);
  for (const name of [1n, 2n, 3n]) {
    toy.model.cache.emit(stored(null, name));
    await expect.poll(() => mirror.size, POLL).toBe(Number(name));
  }
  await redis.kill();
  await redis.start();
  const client = redis.client();
  await expect.poll(() => client.xlen(key), POLL).toBe(1);
  const [last] = await client.xrange(key, "-", "+");
  expect(last?.[0]).toBe(`${toy.model.kvEvents.nextId}-0`);
  client.disconnect();
  expect(mirror.size).toBe(3);
});

test("[CL116] a key that holds something else stops no other stream", skip, async () => {
  const redis = await startRedis();
  const { toy, key, streams, mirror, lines } = await fleet(redis);
  await expect.poll(() => mirror.resets.length, POLL).toBe(1);
  const client = redis.client();
  const strange = streamKey("strange", "1");
  await client.sadd(strange, "no stream");
  client.disconnect();
  // Its worker is real: it is followed over HTTP.
  const other = follow(toy, strange, streams);
  await expect.poll(() => lines.some((line) => line.includes("WRONGTYPE")), POLL).toBe(true);
  toy.model.cache.emit(stored(null, 1n));
  await expect.poll(() => [mirror.size, other.size], POLL).toEqual([1, 1]);
  expect(key).not.toBe(strange);
});
