import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import type { WorkerKind } from "#cluster";
import { type VllmEvent, VllmEventEncoder } from "#kvcache";
import { engineFeed } from "../../../src/cluster/feeds/engine-feed.ts";
import { CacheHistory } from "../../support/cache-history.ts";
import { ChangeMirror, expectedLines } from "../../support/change-mirror.ts";
import { type Dialect, inDialect } from "../../support/engine-dialects.ts";
import { EnginePublisher } from "../../support/engine-publisher.ts";
import { sized } from "../../support/full.ts";
import { json } from "../../support/json.ts";
import { RandomHistory } from "../../support/kv-events.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";
import { workerInfo } from "../../support/worker-info.ts";

closeToyServers();

const EVENTS = sized(10_000, 100_000);
const SCOPE = { model: "toy", blockTokens: 4 };

const POLL = { timeout: 15_000, interval: 2 };

const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of closing.splice(0).reverse()) await each.close();
});

async function publish(options: Parameters<typeof EnginePublisher.start>[0] = {}) {
  const publisher = await EnginePublisher.start(options);
  closing.push(publisher);
  return publisher;
}

function follow(
  { endpoint, replayEndpoint }: EnginePublisher,
  { kind = "vllm", replays = true }: { kind?: WorkerKind; replays?: boolean } = {},
) {
  const zmq = {
    endpoint,
    replayEndpoint: replays ? replayEndpoint : null,
    topic: "",
    ranks: 1,
  };
  const kv = { blockTokens: 4, blocks: [160, 80], groupWindows: [null], zmq };
  const mirror = new ChangeMirror();
  const feed = engineFeed(workerInfo({ kind, kv }), { retryMs: [5, 50] });
  feed.start(mirror);
  closing.push(feed);
  return { mirror, feed };
}

/** A cache's events as an engine publishes them: copies of blocks are announced one by one. */
class EngineHistory {
  readonly cache: CacheHistory;
  events = 0;
  readonly #dialect: Dialect;
  readonly #encoder = new VllmEventEncoder(SCOPE.blockTokens);
  readonly #copies = new Set<string>();

  constructor(seed: number, dialect: Dialect) {
    // SGLang does not name adapters, and vLLM 0.10 no salts.
    const adapters = !dialect.startsWith("sglang");
    this.cache = new CacheHistory(seed, {}, { adapters, salts: dialect !== "vllm lists of 0.10" });
    this.#dialect = dialect;
  }

  step(): unknown[] {
    const events: VllmEvent[] = [];
    for (const event of this.cache.step()) {
      for (const each of this.#encoder.encode(event) ?? []) events.push(...this.#copied(each));
    }
    this.events += events.length;
    return events.map((event) => inDialect(this.#dialect, event));
  }

  #copied(event: VllmEvent): VllmEvent[] {
    if (event.type === "AllBlocksCleared") {
      this.#copies.clear();
      return [event];
    }
    const keys = event.block_hashes.map((hash) => `${event.medium} ${hash}`);
    if (event.type === "BlockStored") {
      if (this.events % 5 !== 0) return [event];
      for (const key of keys) this.#copies.add(key);
      return [event, event];
    }
    const again = event.block_hashes.filter((_, place) => this.#copies.delete(keys[place] ?? ""));
    return again.length === 0 ? [event] : [event, { ...event, block_hashes: again }];
  }
}

const DIALECTS: readonly (readonly [Dialect, boolean])[] = [
  ["vllm maps", true],
  ["vllm lists", false],
  ["vllm lists of 0.10", false],
  ["vllm bytes", true],
  ["sglang lists", false],
  ["sglang maps", false],
];

test.each(DIALECTS)(
  "[CL20] %s: lost batches are asked for again, over restarts, too",
  async (dialect, replayTopic) => {
    let history = new EngineHistory(7, dialect);
    let publisher = await publish({ replayTopic });
    const { endpoint, replayEndpoint } = publisher;
    const { mirror, feed } = follow(publisher, {
      kind: dialect.startsWith("v") ? "vllm" : "sglang",
    });
    let events = 0;
    let restarts = 0;
    let replays = 0;
    for (let step = 1; events + history.events < EVENTS; step++) {
      const batch = history.step();
      // The last batches are not lost: nothing would tell of them.
      if (batch.length > 0) await publisher.publish(batch, { lost: step % 50 < 8 });
      if (step % 4 === 0) await turn();
      // A replay takes a while, and one repairs all that was lost until then.
      if (step % 50 === 9) await expect.poll(() => feed.lag, POLL).toBe(0);
      if (step % 900 === 0) {
        await publisher.publish([]);
        events += history.events;
        replays += publisher.replays;
        await publisher.close();
        restarts++;
        history = new EngineHistory(100 + restarts, dialect);
        publisher = await publish({ replayTopic, endpoint, replayEndpoint });
      }
    }
    await publisher.publish([]);
    const truth = expectedLines(history.cache.snapshot().blocks, SCOPE);
    await expect.poll(() => mirror.lines(), { timeout: 15_000 }).toEqual(truth);
    expect(truth.length).toBeGreaterThan(50);
    expect(restarts).toBeGreaterThan(0);
    expect(replays + publisher.replays).toBeGreaterThan(8);
    expect(feed.lag).toBe(0);
  },
);

test("[CL25] without replays a gap ends in a reset, and nothing wrong is told afterwards", async () => {
  const history = new EngineHistory(3, "vllm maps");
  const publisher = await publish();
  const { mirror } = follow(publisher, { replays: false });
  await sleep(200);
  for (let step = 1; step < 3000; step++) {
    const batch = history.step();
    if (batch.length > 0) await publisher.publish(batch, { lost: step === 1500 });
    if (step % 4 === 0) await turn();
  }
  await expect.poll(() => mirror.resets.length, { timeout: 5000 }).toBe(1);
  await sleep(200);
  const truth = new Set(expectedLines(history.cache.snapshot().blocks, SCOPE));
  expect(mirror.resets[0]).toMatch(/batches \d+ to \d+ were lost/);
  expect(mirror.size).toBeGreaterThan(0);
  expect(mirror.lines().filter((line) => !truth.has(line))).toEqual([]);
});

test("[CL25] a replay that no longer has what is missing ends in a reset", async () => {
  const publisher = await publish({ replayBatches: 5 });
  const { mirror, feed } = follow(publisher);
  const stored = (hash: number) => ["BlockStored", [hash], null, [1, 2, 3, 4], 4, null, "GPU"];
  await publisher.publish([stored(1)]);
  await expect.poll(() => feed.lag).toBe(0);
  for (let hash = 2; hash < 12; hash++) await publisher.publish([stored(hash)], { lost: true });
  await publisher.publish([stored(12)]);
  await expect.poll(() => mirror.size).toBe(5);
  expect(mirror.resets).toHaveLength(1);
});

test("[CL26] placeholders count where a block is known, and mean nothing else", async () => {
  const publisher = await publish();
  const { mirror } = follow(publisher);
  const event = { type: "BlockStored", parent_block_hash: null, block_size: 4, lora_id: null };
  await publisher.publish([
    { ...event, block_hashes: [1, 2], token_ids: [1, 2, 3, 4, 5, 6, 7, 8], medium: "GPU" },
    { ...event, block_hashes: [2], token_ids: [], block_size: 0, medium: "CPU" },
    { ...event, block_hashes: [9], token_ids: [], block_size: 0, medium: "CPU" },
    { type: "BlockRemoved", block_hashes: [2], medium: "GPU" },
    { type: "BlockRemoved", block_hashes: [77], medium: "STORAGE" },
  ]);
  await expect.poll(() => mirror.changes).toBe(5);
  expect(mirror.lines().map((line) => line.slice(-3))).toEqual(["100", "010"]);
  expect(mirror.warnings).toEqual([]);
});

test("[CL26] chunks that overlap are counted block by block", async () => {
  const publisher = await publish();
  const { mirror } = follow(publisher);
  const chunk = (parent: number | null, ...hashes: number[]) => {
    const token_ids = hashes.flatMap((hash) => [hash, hash, hash, hash]);
    const place = { parent_block_hash: parent, block_size: 4, medium: "CPU", lora_id: null };
    return { type: "BlockStored", block_hashes: hashes, token_ids, ...place };
  };
  const gone = (...block_hashes: number[]) => ({
    type: "BlockRemoved",
    block_hashes,
    medium: "CPU",
  });
  await publisher.publish([chunk(null, 1, 2, 3), chunk(1, 2, 3, 4), gone(1, 2, 3)]);
  await expect.poll(() => mirror.size).toBe(3);
  await publisher.publish([gone(2, 3, 4)]);
  await expect.poll(() => mirror.size).toBe(0);
});

test("[CL21] keys: adapters and salts are scopes, images are left out", async () => {
  const publisher = await publish();
  const { mirror } = follow(publisher);
  const event = { type: "BlockStored", token_ids: [1, 2, 3, 4], block_size: 4, medium: "GPU" };
  await publisher.publish([
    { ...event, block_hashes: [1], parent_block_hash: null, extra_keys: [["pepper"]] },
    { ...event, block_hashes: [2], parent_block_hash: null, lora_name: "a", extra_keys: [["a"]] },
    { ...event, block_hashes: [3], parent_block_hash: null, extra_keys: [[["ab", 0]]] },
    { ...event, block_hashes: [4], parent_block_hash: 1, extra_keys: [null] },
    { ...event, block_hashes: [5], parent_block_hash: 1, group_idx: 1 },
  ]);
  await expect.poll(() => mirror.changes).toBe(4);
  expect(mirror.lines().map((line) => line.split(" ")[3])).toEqual([
    "toy/4/pepper/null/0",
    "toy/4/null/a/0",
    "toy/4/pepper/null/0",
  ]);
});

test("[CL24] blocks of another size than the worker says are refused with a line", async () => {
  const publisher = await publish();
  const { mirror } = follow(publisher);
  await publisher.publish([["BlockStored", [1], null, [1, 2], 2, null, "GPU"]]);
  await expect.poll(() => mirror.warnings.length).toBe(1);
  expect(mirror.warnings[0]).toContain("blocks must have 4 tokens, as the worker says");
});

test("[CL23] one line says that a publisher is away", async () => {
  const publisher = await publish();
  const { mirror, feed } = follow(publisher);
  await publisher.publish([["AllBlocksCleared"]]);
  await expect.poll(() => feed.lag).toBe(0);
  await publisher.close();
  await sleep(300);
  expect(mirror.warnings).toHaveLength(1);
  expect(mirror.warnings[0]).toContain("the publisher is away");
});

test("[CL20] our own servers' publisher is read as vLLM's, though their log overflows", async () => {
  const toy = await serveToy(
    { eventBufferMax: 100 },
    { kvEventsZmq: "tcp://127.0.0.1:*", kvEventsZmqReplay: "tcp://127.0.0.1:*" },
  );
  const { kv_events } = await json(toy.get("/server_info"));
  const { endpoint, replay_endpoint: replayEndpoint } = kv_events?.zmq ?? {};
  const zmq = { endpoint: String(endpoint), replayEndpoint: String(replayEndpoint) };
  const kv = { blockTokens: 16, blocks: [64], groupWindows: [null] };
  const worker = workerInfo({ kind: "vllm", kv: { ...kv, zmq: { ...zmq, topic: "", ranks: 1 } } });
  const mirror = new ChangeMirror();
  const feed = engineFeed(worker, { retryMs: [5, 50] });
  feed.start(mirror);
  closing.push(feed);
  const { cache } = toy.model;
  const history = new RandomHistory(9, (event) => cache.queue(event), 16);
  cache.blocks = () => history.snapshot(0).blocks;
  for (let step = 1; step < 3000; step++) {
    history.step();
    cache.flush();
    if (step % 500 < 450 && step % 3 === 0) await turn();
  }
  const truth = expectedLines(history.snapshot(0).blocks, { model: "toy", blockTokens: 16 });
  await expect.poll(() => mirror.lines(), POLL).toEqual(truth);
  expect(truth.some((line) => line.endsWith("010"))).toBe(true);
});
