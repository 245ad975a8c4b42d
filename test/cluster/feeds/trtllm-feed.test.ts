import { createServer, type Server } from "node:http";
import { setImmediate as turn } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { kvEventJson, type NumberedKvEvent } from "#kvcache";
import { TrtllmFeed } from "../../../src/cluster/feeds/trtllm-feed.ts";
import { CacheHistory } from "../../support/cache-history.ts";
import { ChangeMirror, expectedLines } from "../../support/change-mirror.ts";
import { sized } from "../../support/full.ts";
import { workerInfo } from "../../support/worker-info.ts";

const EVENTS = sized(10_000, 100_000);
const SCOPE = { model: "toy", blockTokens: 4 };

const closing: { close(): unknown }[] = [];
afterEach(async () => {
  for (const each of closing.splice(0).reverse()) await each.close();
});

/** A server with a buffer of events, of which the oldest are dropped. */
class PolledServer {
  readonly #server: Server;
  #buffer: string[] = [];
  readonly #bufferMax: number;
  polls = 0;

  private constructor(server: Server, bufferMax: number) {
    this.#server = server;
    this.#bufferMax = bufferMax;
  }

  static async start(bufferMax = 1_000_000): Promise<PolledServer> {
    const server = createServer((request, response) => {
      polled.polls++;
      expect([request.method, request.url]).toEqual(["POST", "/kv_cache_events"]);
      response.end(`[${polled.#buffer.splice(0).join(",")}]`);
    });
    const polled = new PolledServer(server, bufferMax);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closing.push(server);
    return polled;
  }

  get url(): string {
    const address = this.#server.address();
    return typeof address === "object" ? `http://127.0.0.1:${address?.port}` : "";
  }

  emit(...events: readonly string[]): void {
    this.#buffer.push(...events);
    this.#buffer.splice(0, this.#buffer.length - this.#bufferMax);
  }
}

function follow({ url }: PolledServer) {
  const mirror = new ChangeMirror();
  const feed = new TrtllmFeed(workerInfo({ url, kind: "tensorrt-llm" }), { retryMs: [5, 50] });
  feed.start(mirror);
  closing.push(feed);
  return { mirror, feed };
}

/** V2 names blocks by digests: here each number of a hash is the beginning of one. */
function inV2(event: NumberedKvEvent): string {
  const digest = (digits: string) =>
    `"${BigInt(digits).toString(16).padStart(16, "0")}${"ab".repeat(24)}"`;
  const named = text(event)
    .replace(/(?<="(?:block_hash|parent_hash)":)\d+/g, digest)
    .replace(/(?<="block_hashes":\[)[\d,]*/g, (list) => list.replace(/\d+/g, digest));
  return `${named.slice(0, -1)},"hash_algo":"v2_sha256","layer_group_id":0}`;
}

const text = (event: NumberedKvEvent) => kvEventJson(event, [4096]);

test.each([
  ["V1", text],
  ["V2", inV2],
] as const)("[CL20] %s: the tree of the last start, over restarts", async (_name, write) => {
  const server = await PolledServer.start();
  const { mirror } = follow(server);
  let events = 0;
  let history = new CacheHistory(11);
  let restarts = 0;
  for (let step = 1; events < EVENTS; step++) {
    const told = history.step();
    events += told.length;
    server.emit(...told.map(write));
    if (step % 5 === 0) await turn();
    if (step % 1500 === 0) history = new CacheHistory(100 + restarts++);
  }
  const truth = expectedLines(history.snapshot().blocks, SCOPE);
  await expect.poll(() => mirror.lines(), { timeout: 10_000 }).toEqual(truth);
  expect(mirror.resets).toEqual(Array.from({ length: restarts }, () => "the worker began anew"));
  expect(restarts).toBeGreaterThan(0);
  expect(mirror.orphans).toBe(0);
});

test("[CL25] lost events are a reset: they do not come again", async () => {
  const server = await PolledServer.start(50);
  const { mirror } = follow(server);
  const history = new CacheHistory(5);
  const step = () => server.emit(...history.step().map(text));
  for (let count = 0; count < 60; count++) {
    step();
    await turn();
  }
  await expect.poll(() => mirror.size).toBeGreaterThan(0);
  for (let count = 0; count < 400; count++) step();
  await expect.poll(() => mirror.resets.length, { timeout: 3000 }).toBe(1);
  expect(mirror.resets[0]).toMatch(/events \d+ to \d+ were lost/);
  await expect.poll(() => mirror.size).toBeGreaterThan(0);
  const truth = new Set(expectedLines(history.snapshot().blocks, SCOPE));
  expect(mirror.lines().filter((line) => !truth.has(line))).toEqual([]);
});

const stored = (id: number, hash: number, more: object = {}) =>
  JSON.stringify({
    event_id: id,
    window_size: 64,
    data: {
      type: "stored",
      parent_hash: null,
      blocks: [
        {
          block_hash: hash,
          cache_level: 0,
          priority: 35,
          tokens: [1, 2, 3, 4].map((token_id) => ({ token_id, token_extra_id: 0 })),
        },
      ],
    },
    ...more,
  });

test("[CL21] only the layers that see most count, of V2 the first group of them", async () => {
  const server = await PolledServer.start();
  const { mirror } = follow(server);
  const created = (id: number, window_size: number, layer_group_id: number) =>
    JSON.stringify({ event_id: id, window_size, layer_group_id, data: { type: "created" } });
  server.emit(
    ...[created(0, 32, 0), created(1, 64, 1), created(2, 64, 2)],
    stored(3, 10, { window_size: 32, layer_group_id: 0 }),
    stored(4, 11, { layer_group_id: 1 }),
    stored(5, 12, { layer_group_id: 2 }),
  );
  await expect.poll(() => mirror.size).toBe(1);
  expect(mirror.lines()[0]).toContain("000000000000000b");
});

test("[CL21] ranks have numbers and names of their own", async () => {
  const server = await PolledServer.start();
  const { mirror } = follow(server);
  server.emit(stored(0, 9), stored(0, 9, { attention_dp_rank: 1 }));
  await expect.poll(() => mirror.size).toBe(2);
  expect(mirror.resets).toEqual([]);
});

test("[CL24] larger blocks than the worker says are refused with a line", async () => {
  const server = await PolledServer.start();
  const { mirror } = follow(server);
  server.emit(stored(0, 9).replace('"tokens":[', '"tokens":[{"token_id":5},'));
  await expect.poll(() => mirror.warnings.length).toBe(1);
  expect(mirror.warnings[0]).toContain("tokens must be 4, as the worker says");
});
