/** What workers that give memory alone are told to fetch. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Registry } from "prom-client";
import { afterEach, describe, expect, test } from "vitest";
import type { Member, Membership, WorkerInfo } from "#cluster";
import { CircuitBreaker } from "../../../src/cluster/router/breaker.ts";
import { FillMetrics } from "../../../src/cluster/router/fill-metrics.ts";
import { FillQueue } from "../../../src/cluster/router/fill-queue.ts";
import { type FillKind, KvFills } from "../../../src/cluster/router/kv-fills.ts";
import { Upstream } from "../../../src/cluster/router/upstream.ts";
import { workerInfo } from "../../support/worker-info.ts";

interface Order {
  readonly prompt_token_ids: readonly number[];
  readonly reused_tokens: number;
  readonly source: unknown;
}

const servers: Server[] = [];
const upstreams: Upstream[] = [];

afterEach(async () => {
  for (const upstream of upstreams.splice(0)) await upstream.close();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

/** A worker of the role kv that a test plays: `answer` says what it does with an order. */
async function playMemory(answer: (order: Order) => Promise<readonly [number, unknown]>) {
  const orders: Order[] = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const part of request) text += part;
    const order = JSON.parse(text) as Order;
    orders.push(order);
    const [status, body] = await answer(order);
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { orders, url: `http://127.0.0.1:${port}` };
}

const stored = (tokens: number) => [200, { stored_tokens: tokens, stored_before: 0 }] as const;
const all = async ({ prompt_token_ids: ids }: Order) => stored(ids.length - 1);

const worker = workerInfo({
  ...{ id: "w", fingerprint: "f", transfer: { host: "127.0.0.1", port: 7 }, role: "both" },
});

function start(urls: readonly string[], kind: FillKind = "all", held: Record<string, number> = {}) {
  const infos = urls.map((url, at) =>
    workerInfo({ ...worker, id: `m${at}`, url, role: "kv", kv: worker.kv }),
  );
  const workers = new Map<string, Member>(
    [worker, ...infos].map((info) => [info.id, { info, state: "ready" }]),
  );
  const links = new Map(
    infos.map((info) => {
      const upstream = new Upstream(info.url, UPSTREAM);
      upstreams.push(upstream);
      const breaker = new CircuitBreaker({ failuresMax: 3, openMs: 1000, clock: performanceClock });
      return [info.id, { info, upstream, breaker, headers: {} }] as const;
    }),
  );
  const warnings: string[] = [];
  const registry = new Registry();
  const fills = new KvFills({
    membership: { workers, listen: () => () => {} } as unknown as Membership,
    links: { find: (id: string) => links.get(id) ?? null } as never,
    prefixes: {
      find: (_query, found) =>
        found.map(({ id }) => {
          const blocks = held[id] ?? 0;
          return { worker: 0 as never, levels: [0, blocks, blocks] };
        }),
    },
    ...{ kind, metrics: new FillMetrics(registry), warn: (text: string) => warnings.push(text) },
  });
  return { fills, workers, warnings, registry };
}

const UPSTREAM = { connectTimeoutMs: 1000, answerBytesMax: 2 ** 20, ca: null };
const performanceClock = { nowMs: () => performance.now() };

/** A prompt of that many blocks of 4 tokens, and one token. */
function computed(first: number, blocks: number, seenBlocks = 0, by: WorkerInfo = worker) {
  const tokens = Uint32Array.from({ length: 4 * blocks + 1 }, (_, at) => first * 1000 + at);
  return { query: { tokens, salt: null, lora: null }, tokens, worker: by, seenBlocks };
}

describe("what is fetched", () => {
  test("[CL223] a computed prompt, with how much of it was asked for before", async () => {
    const { orders, url } = await playMemory(all);
    const { fills, registry } = start([url]);
    fills.computed(computed(1, 20, 12));
    await expect.poll(() => orders.length).toBe(1);
    expect(orders[0]).toMatchObject({
      reused_tokens: 48,
      source: { host: "127.0.0.1", port: 7 },
    });
    expect(orders[0]?.prompt_token_ids).toHaveLength(81);
    await expect
      .poll(() => registry.metrics())
      .toMatch(/kv_fills_total\{outcome="stored"\} 1[\s\S]*kv_fill_tokens_total 80/);
  });

  test("[CL223] reused: what was asked for before alone; off: nothing; nor what it has", async () => {
    const { orders, url } = await playMemory(all);
    start([url], "off").fills.computed(computed(1, 20, 12));
    start([url], "all", { m0: 15 }).fills.computed(computed(1, 20, 12));
    const { fills } = start([url], "reused", { m0: 2 });
    fills.computed(computed(2, 20, 9));
    fills.computed(computed(3, 20, 12));
    await expect.poll(() => orders.length).toBe(1);
    expect(orders[0]?.prompt_token_ids).toHaveLength(49);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(orders).toHaveLength(1);
  });

  test("[CL223] [CL227] of no other fingerprint or block size, which is told once", async () => {
    const { orders, url } = await playMemory(all);
    const { transfer: _way, ...closed } = worker;
    const longer = { blockTokens: 8, blocks: [9], groupWindows: [null] };
    const others = [
      [{ ...worker, fingerprint: "g" }, /other fingerprint; start both with the same model/],
      [closed, /start it with --kv-transfer/],
      [{ ...worker, kv: longer }, /has blocks of 8 tokens, not 4/],
      [{ ...worker, fingerprint: "g", models: ["another"] }, null],
    ] as const;
    for (const [other, said] of others) {
      const { fills, warnings } = start([url]);
      for (let at = 0; at < 2; at++) fills.computed(computed(1, 20, 0, other));
      expect(warnings).toEqual(said === null ? [] : [expect.stringMatching(said)]);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(orders).toHaveLength(0);
  });

  test("[CL223] a worker without free memory is told for a while of reused tokens alone", async () => {
    const { orders, url } = await playMemory(async () => stored(16));
    const { fills } = start([url]);
    fills.computed(computed(1, 20, 0));
    await expect.poll(() => orders.length).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 50));
    fills.computed(computed(2, 20, 0));
    fills.computed(computed(3, 20, 10));
    await expect.poll(() => orders.length).toBe(2);
    expect(orders[1]?.prompt_token_ids).toHaveLength(41);
  });

  test("[CL223] a prompt goes where half of it is, others to who was given least", async () => {
    const [first, second] = [await playMemory(all), await playMemory(all)];
    const { fills } = start([first.url, second.url]);
    for (let at = 0; at < 6; at++) fills.computed(computed(at, 20));
    await expect.poll(() => first.orders.length + second.orders.length).toBe(6);
    expect(first.orders.length).toBeGreaterThan(0);
    expect(second.orders.length).toBeGreaterThan(0);
    const { fills: more } = start([first.url, second.url], "all", { m1: 11 });
    const before = second.orders.length;
    more.computed(computed(9, 20));
    await expect.poll(() => second.orders.length).toBe(before + 1);
  });
});

describe("how much at a time", () => {
  test("[CL224] two orders at a time, those with most reused tokens first", async () => {
    const release: (() => void)[] = [];
    const { orders, url } = await playMemory(async (order) => {
      await new Promise<void>((resolve) => release.push(resolve));
      return await all(order);
    });
    const { fills } = start([url]);
    for (let at = 0; at < 6; at++) fills.computed(computed(at, 20, at));
    await expect.poll(() => orders.length).toBe(2);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(orders).toHaveLength(2);
    while (orders.length < 6 || release.length > 0) {
      release.shift()?.();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    // Two are on their way at once, in any order.
    const reused = orders.slice(2).map(({ reused_tokens: tokens }) => tokens);
    expect(Math.min(...reused.slice(0, 2))).toBeGreaterThan(Math.max(...reused.slice(2)));
  });

  test("[CL224] those that wait are bounded in number and in tokens", () => {
    const queue = new FillQueue();
    const order = (first: number, length: number, reusedTokens: number) => ({
      ...{ tokens: new Uint32Array(length).fill(first), salt: null, reusedTokens },
      ...{ source: { host: "h", port: 1 }, worker: { id: "w", epoch: "1" } },
    });
    let dropped = 0;
    for (let at = 0; at < 100; at++) dropped += queue.add(order(at, 10, at));
    expect(dropped).toBe(36);
    expect(queue.take()?.reusedTokens).toBe(99);
    // One that waits already is not taken again.
    expect(queue.add(order(98, 10, 98))).toBe(0);
    expect(queue.take()?.reusedTokens).toBe(98);
    expect(queue.take()?.reusedTokens).toBe(97);
    expect(queue.add(order(1000, 2 ** 20 + 1, 0))).toBe(1);
    expect(queue.take()?.reusedTokens).toBe(96);
  });

  test("[CL224] failures are told once, and cost nothing else", async () => {
    let status = 502;
    const answer = { error: { message: "nobody there" } };
    const { orders, url } = await playMemory(async (order) =>
      status === 200 ? await all(order) : [status, answer],
    );
    const { fills, warnings, registry, workers } = start([url]);
    for (let at = 0; at < 3; at++) fills.computed(computed(at, 20));
    await expect.poll(() => orders.length).toBe(3);
    await expect.poll(() => registry.metrics()).toMatch(/outcome="failed"\} 3/);
    expect(warnings).toEqual([expect.stringContaining("nobody there")]);
    status = 429;
    fills.computed(computed(7, 20));
    await expect.poll(() => registry.metrics()).toMatch(/outcome="dropped"\} 1/);
    // Who has the blocks has left.
    workers.delete("w");
    fills.computed(computed(8, 20));
    await expect.poll(() => registry.metrics()).toMatch(/outcome="dropped"\} 2/);
    expect(warnings).toHaveLength(1);
    expect(orders).toHaveLength(4);
  });
});
