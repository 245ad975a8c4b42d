import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import {
  KvMirror,
  type KvSnapshot,
  type NumberedKvEvent,
  parseKvEvent,
  parseKvEvents,
  parseKvRun,
  parseKvSnapshot,
  type SnapshotBlock,
} from "#kvcache";
import { json } from "../../support/json.ts";
import { RandomHistory, removed, stored, storedBlock } from "../../support/kv-events.ts";
import { RawClient } from "../../support/raw-client.ts";
import { STREAM_ID } from "../../support/scripted-events.ts";
import { SseReader } from "../../support/sse.ts";
import { closeToyServers, serveToy, type ToyServer } from "../../support/toy-server.ts";

closeToyServers();

const open: SseReader[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((reader) => reader.close()));
});

async function follow({ get }: ToyServer, query = "", headers = {}): Promise<SseReader> {
  const reader = new SseReader(await get(`/kv_cache_events/stream${query}`, { headers }));
  open.push(reader);
  return reader;
}

async function drain({ server }: ToyServer, query = "", init: RequestInit = {}) {
  const answer = await fetch(`${server.url}/kv_cache_events${query}`, { method: "POST", ...init });
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8");
  return parseKvEvents(await answer.text());
}

const ids = (events: readonly NumberedKvEvent[]) => events.map(({ id }) => id);

/** The next message of a stream, as an event. */
async function nextEvent(reader: SseReader): Promise<NumberedKvEvent | null> {
  const message = await reader.next();
  expect(message?.event).toBe("message");
  const event = parseKvEvent(message?.data ?? "");
  expect(message?.id).toBe(`${event?.id}-${STREAM_ID}`);
  return event;
}

test("polling takes events away, as a JSON array with exact hashes", async () => {
  const toy = await serveToy();
  const largest = 2n ** 64n - 1n;
  toy.model.cache.emit(stored(null, largest), removed(largest));
  expect(await drain(toy)).toEqual([
    { id: 0, event: { type: "created", blocksPerLevel: [64, 32, 16] } },
    { id: 1, event: stored(null, largest) },
    { id: 2, event: removed(largest) },
  ]);
  expect(await drain(toy)).toEqual([]);
});

test("events tell when they came, where that is asked for", async () => {
  const toy = await serveToy();
  const before = Date.now() / 1000;
  toy.model.cache.emit(stored(null, 7n));
  const after = Date.now() / 1000;
  const reader = await follow(toy, "?times=on&after=-1");
  for (const type of ["created", "stored"]) {
    const { ts, data, ...rest } = JSON.parse((await reader.next())?.data ?? "");
    expect([data.type, Object.keys(rest)]).toEqual([type, ["event_id", "window_size"]]);
    expect(ts).toBeLessThan(after + 1);
    expect(ts).toBeGreaterThan(before - (type === "stored" ? 1 : 3600));
  }
  const packed = await follow(toy, "?times=on&runs=packed&after=0");
  const run = (await packed.next())?.data ?? "";
  expect(JSON.parse(run)).toMatchObject({ event_id: 1, ts: expect.any(Number) });
  expect(parseKvRun(run) ?? parseKvEvent(run)).not.toBeNull();
  const polled = await fetch(`${toy.server.url}/kv_cache_events?times=on`, { method: "POST" });
  const text = await polled.text();
  const times = (JSON.parse(text) as { ts?: number }[]).map(({ ts }) => ts);
  expect(times).toEqual([expect.any(Number), expect.any(Number)]);
  expect(ids(parseKvEvents(text))).toEqual([0, 1]);
  toy.model.cache.emit(removed(7n));
  expect(await (await toy.post("/kv_cache_events", {})).text()).not.toContain('"ts"');
  expect((await toy.get("/kv_cache_events/stream?times=maybe")).status).toBe(400);
});

test("events carry the window that TensorRT-LLM's readers choose by", async () => {
  const toy = await serveToy();
  const [created] = JSON.parse(await (await toy.post("/kv_cache_events", {})).text());
  expect(created).toMatchObject({ event_id: 0, window_size: 4096 });
});

test.each([
  ["no body", {}],
  [
    "an empty body of no type",
    { body: "", headers: { "content-type": "application/octet-stream" } },
  ],
  ["an empty body of JSON", { body: "", headers: { "content-type": "application/json" } }],
  ["an object", { body: "{}", headers: { "content-type": "application/json" } }],
] as const)("polling takes %s", async (_name, init) => {
  expect(ids(await drain(await serveToy(), "", init))).toEqual([0]);
});

test("polling waits for an event as long as it is told", async () => {
  const toy = await serveToy();
  await drain(toy);
  expect(await drain(toy, "?timeout_ms=20")).toEqual([]);
  const waiting = drain(toy, "", { body: JSON.stringify({ timeout_ms: 30_000 }) });
  setTimeout(() => toy.model.cache.emit(stored(null, 1n)), 50);
  expect(ids(await waiting)).toEqual([1]);
});

test("a client that hangs up while polling takes nothing away", async () => {
  const toy = await serveToy();
  await drain(toy);
  const stop = new AbortController();
  const left = drain(toy, "?timeout_ms=30000", { signal: stop.signal });
  setTimeout(() => stop.abort(), 100);
  await expect(left).rejects.toThrow();
  await new Promise((resolve) => setTimeout(resolve, 50));
  toy.model.cache.emit(stored(null, 1n));
  expect(ids(await drain(toy))).toEqual([1]);
});

test.each(["-1", "soon", "600001"])("a time-out of %s is refused", async (timeout) => {
  const { post } = await serveToy();
  const answer = await post("/kv_cache_events", { timeout_ms: timeout });
  expect(answer.status).toBe(400);
  expect((await json(answer)).error?.message).toContain("timeout_ms must be 0 to 600000");
});

test("a body that is no JSON is refused", async () => {
  const { server } = await serveToy();
  const answer = await fetch(`${server.url}/kv_cache_events`, { method: "POST", body: "{" });
  expect(answer.status).toBe(400);
});

test("a stream without a number starts with a snapshot, then follows", async () => {
  const toy = await serveToy();
  const { cache } = toy.model;
  cache.emit(stored(null, 1n), stored(1n, 2n));
  const block = { ...storedBlock(1n), parentHash: null };
  cache.blocks = () => [block, { ...block, hash: 2n, parentHash: 1n }];
  const reader = await follow(toy);
  const first = await reader.next();
  expect(first).toMatchObject({ event: "snapshot", id: `1-${STREAM_ID}` });
  const snapshot = parseKvSnapshot(first?.data ?? "");
  expect(snapshot).toMatchObject({ nextId: 2, first: true, last: true });
  expect(snapshot.blocks.map(({ hash }) => hash)).toEqual([1n, 2n]);
  cache.emit(removed(2n));
  expect(await nextEvent(reader)).toEqual({ id: 2, event: removed(2n) });
});

test.each([
  ["?after=1", {}],
  [`?after=1-${STREAM_ID}`, {}],
  ["", { "last-event-id": `1-${STREAM_ID}` }],
  ["?after=0", { "last-event-id": "1" }],
])("a stream goes on behind %s %o, and two read alike", async (query, headers) => {
  const toy = await serveToy();
  toy.model.cache.emit(stored(null, 1n), stored(1n, 2n), removed(2n), stored(1n, 3n));
  for (const reader of [await follow(toy, query, headers), await follow(toy, query, headers)]) {
    expect((await nextEvent(reader))?.id).toBe(2);
    expect((await nextEvent(reader))?.id).toBe(3);
  }
  expect(ids(await drain(toy))).toEqual([0, 1, 2, 3]);
});

test("tokens=plain gives ids as a list, of which a reader makes the same event", async () => {
  const toy = await serveToy();
  const { cache } = toy.model;
  const extra = storedBlock(2n, { extraIds: [0, 0, 0, 7] });
  const event = { type: "stored", parentHash: null, blocks: [storedBlock(1n), extra] } as const;
  cache.emit(event);
  const [plain, objects] = [
    await follow(toy, "?after=0&tokens=plain"),
    await follow(toy, "?after=0"),
  ];
  const message = await plain.next();
  expect(message?.data).toContain('"token_ids":[1,2,3,4],"cache_level"');
  expect(parseKvEvent(message?.data ?? "")).toEqual({ id: 1, event });
  expect(await nextEvent(objects)).toEqual({ id: 1, event });
  expect((await toy.get("/kv_cache_events/stream?tokens=odd")).status).toBe(400);
});

test("[CL192] runs=packed packs runs of alike blocks, and no other events", async () => {
  const toy = await serveToy();
  const alike = stored(null, 1n, 2n);
  toy.model.cache.emit(alike);
  toy.model.cache.emit(removed(1n));
  const packed = await follow(toy, "?after=0&tokens=plain&runs=packed");
  const first = (await packed.next())?.data ?? "";
  expect(parseKvRun(first)?.id).toBe(1);
  expect([...(parseKvRun(first)?.run.hashes ?? [])]).toEqual([1, 0, 2, 0]);
  expect(await nextEvent(packed)).toEqual({ id: 2, event: removed(1n) });
  const odd = await toy.get("/kv_cache_events/stream?runs=odd");
  expect(odd.status).toBe(400);
  expect(await odd.text()).toContain("runs must be packed, current value is odd");
});

test("after=-1 replays from the first event", async () => {
  const toy = await serveToy();
  const reader = await follow(toy, "?after=-1");
  expect((await nextEvent(reader))?.event.type).toBe("created");
});

test.each([
  ["is not kept any more", "?after=1"],
  ["is still to come", "?after=99"],
  ["is another stream's", "?after=8-0ld0ne"],
])("a number that %s gets a snapshot first", async (_name, query) => {
  const toy = await serveToy({ eventBufferMax: 4 });
  for (let hash = 1n; hash <= 9n; hash++) toy.model.cache.emit(stored(null, hash));
  const reader = await follow(toy, query);
  expect(await reader.next()).toMatchObject({ event: "snapshot", id: `9-${STREAM_ID}` });
});

test("a number that is none is refused", async () => {
  const { get } = await serveToy();
  const answer = await get("/kv_cache_events/stream?after=x");
  expect(answer.status).toBe(400);
  expect((await json(answer)).error?.message).toContain("current value is x");
});

test("a long snapshot comes in parts, of which only the last can be resumed from", async () => {
  const toy = await serveToy();
  const blocks = Array.from({ length: 2500 }, (_, place) => ({
    ...storedBlock(BigInt(place + 1)),
    parentHash: place === 0 ? null : BigInt(place),
  }));
  toy.model.cache.blocks = () => blocks;
  const reader = await follow(toy);
  const parts = [await reader.next(), await reader.next(), await reader.next()];
  expect(parts.map((part) => part?.id)).toEqual([null, null, `0-${STREAM_ID}`]);
  const read = parts.map((part) => parseKvSnapshot(part?.data ?? ""));
  expect(read.map(({ first, last }) => [first, last])).toEqual([
    [true, false],
    [false, false],
    [false, true],
  ]);
  expect(read.flatMap((part) => part.blocks)).toEqual(blocks);
});

test("a model without events streams none, and polling finds none", async () => {
  const toy = await serveToy({ eventBufferMax: 0 });
  const answer = await toy.get("/kv_cache_events/stream");
  expect(answer.status).toBe(409);
  expect((await json(answer)).error?.message).toContain("--kv-event-buffer-max");
  expect(await drain(toy)).toEqual([]);
});

test("prompts are in the events, so they need the key like everything else", async () => {
  const { get, post } = await serveToy({}, { apiKey: ["secret"] });
  expect((await get("/kv_cache_events/stream")).status).toBe(401);
  expect((await post("/kv_cache_events", {})).status).toBe(401);
});

test("HEAD does not begin a stream", async () => {
  const { get } = await serveToy();
  expect((await get("/kv_cache_events/stream", { method: "HEAD" })).status).not.toBe(200);
});

test("closing the server ends its streams", async () => {
  const toy = await serveToy();
  const reader = await follow(toy, "?after=-1");
  await nextEvent(reader);
  const end = reader.next();
  await toy.server.close();
  expect(await end).toBeNull();
});

test("the model's end is the stream's", async () => {
  const toy = await serveToy();
  const reader = await follow(toy, "?after=-1");
  await nextEvent(reader);
  toy.model.cache.log.close();
  expect(await reader.next()).toBeNull();
});

test("server_info tells routers how blocks are cut, named and followed", async () => {
  const { get } = await serveToy({ eventBufferMax: 50 });
  expect(await json(get("/server_info"))).toMatchObject({
    tokens_per_block: 16,
    kv_cache_hash_algo: "v1_block_key",
    kv_events: {
      enabled: true,
      stream_id: STREAM_ID,
      buffer_max: 50,
      first_event_id: 0,
      next_event_id: 1,
      zmq: null,
    },
  });
});

test.each([1, 2])(
  "a client that follows a small buffer ends with the cache's own tree (seed %i)",
  async (seed) => {
    const toy = await serveToy({ eventBufferMax: 8 });
    const { cache } = toy.model;
    const history = new RandomHistory(seed, (event) => cache.queue(event));
    cache.blocks = () => history.snapshot(0).blocks;
    const follower = new Follower(await follow(toy, "?after=-1"));
    for (let step = 1; step <= 3000; step++) {
      history.step();
      cache.flush();
      // Events in one turn of the loop are more than the buffer keeps.
      if (step % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    await follower.until(cache.source.nextId);
    expect(follower.losses).toBeGreaterThan(5);
    expect(follower.mirror.equals(cache.snapshot())).toBe(true);
  },
);

/** Keeps a mirror by a stream alone. */
class Follower {
  readonly mirror = new KvMirror();
  losses = 0;
  readonly #reader: SseReader;
  #parts: SnapshotBlock[] = [];

  constructor(reader: SseReader) {
    this.#reader = reader;
  }

  async until(nextId: number): Promise<void> {
    while (this.mirror.nextId < nextId) {
      const message = await this.#reader.next();
      if (message === null) throw new Error("The stream ended early");
      if (message.event === "snapshot") this.#take(message.data);
      else if (message.event === "lost") this.losses++;
      else this.#apply(message.data);
    }
  }

  #take(data: string): void {
    const part = parseKvSnapshot(data);
    this.#parts.push(...part.blocks);
    if (!part.last) return;
    const snapshot: KvSnapshot = { ...part, blocks: this.#parts };
    this.#parts = [];
    this.mirror.load(snapshot);
  }

  #apply(data: string): void {
    const event = parseKvEvent(data);
    if (event === null || !this.mirror.apply(event)) throw new Error("The stream has a gap");
  }
}

test("a reader that stalls is cut, and its place is free; the events it misses are not kept", async () => {
  const options = { writeTimeoutMs: 400, kvEventStreamsMax: 1 };
  const toy = await serveToy({ eventBufferMax: 2000 }, options);
  const stalled = new RawClient(toy.server.url).get("/kv_cache_events/stream?after=-1");
  const refused = async () => (await toy.get("/kv_cache_events/stream")).status;
  await expect.poll(refused, { timeout: 10_000 }).toBe(429);
  const tokenIds = Array.from({ length: 2000 }, (_, place) => 100_000 + place);
  const block = { ...storedBlock(1n), tokenIds };
  const before = process.memoryUsage().rss;
  // 20,000 events of some 20 kB as text: a stalled reader must not have 400 MB of them.
  for (let turn = 0; turn < 200; turn++) {
    for (let event = 0; event < 100; event++) {
      toy.model.cache.queue({ type: "stored", parentHash: null, blocks: [block] });
    }
    toy.model.cache.flush();
    await sleep(5);
  }
  expect(process.memoryUsage().rss - before).toBeLessThan(256 * 2 ** 20);
  await expect
    .poll(
      async () => {
        const answer = await toy.get("/kv_cache_events/stream");
        await answer.body?.cancel();
        return answer.status;
      },
      { timeout: 20_000 },
    )
    .toBe(200);
  await stalled.cut();
});
