import { createServer, get } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import type { NumberedKvEvent } from "#kvcache";
import { PerigeeFeed } from "../../../src/cluster/feeds/perigee-feed.ts";
import { CacheHistory } from "../../support/cache-history.ts";
import { ChangeMirror, expectedLines } from "../../support/change-mirror.ts";
import { CutProxy } from "../../support/cut-proxy.ts";
import { eachNth, sized } from "../../support/full.ts";
import { RandomHistory, removed, stored, storedBlock } from "../../support/kv-events.ts";
import { closeToyServers, serveToy, type ToyServer } from "../../support/toy-server.ts";
import { workerInfo } from "../../support/worker-info.ts";

closeToyServers();

const EVENTS = sized(10_000, 100_000);
const SCOPE = { model: "toy", blockTokens: 4 };
const RETRY = { retryMs: [5, 50] } as const;

const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of closing.splice(0).reverse()) await each.close();
});

function follow(url: string, options = {}): { mirror: ChangeMirror; feed: PerigeeFeed } {
  const mirror = new ChangeMirror();
  const feed = new PerigeeFeed(workerInfo({ url }), { ...RETRY, ...options });
  feed.start(mirror);
  closing.push(feed);
  return { mirror, feed };
}

const portOf = ({ server }: ToyServer) => Number(new URL(server.url).port);

/** A cache whose events a toy server tells. */
class ToldHistory {
  readonly toy: ToyServer;
  readonly history: CacheHistory;
  events = 0;

  constructor(toy: ToyServer, history: CacheHistory) {
    this.toy = toy;
    this.history = history;
    toy.model.cache.blocks = () => history.snapshot().blocks;
  }

  step(): void {
    const events: readonly NumberedKvEvent[] = this.history.step();
    this.events += events.length;
    // The toy's log began with an event of its own.
    for (const { event } of events) if (event.type !== "created") this.toy.model.cache.queue(event);
    this.toy.model.cache.flush();
  }
}

test.each(eachNth(2, [1, 2]))(
  "[CL20] a feed arrives at the worker's tree over cuts, lost events and restarts (seed %i)",
  async (seed) => {
    const start = async (number: number) =>
      new ToldHistory(
        await serveToy({ eventBufferMax: 200, eventStreamId: `stream${number}` }),
        new CacheHistory(seed * 100 + number),
      );
    let worker = await start(0);
    const proxy = await CutProxy.start(portOf(worker.toy));
    closing.push(proxy);
    const { mirror } = follow(proxy.url);
    let events = 0;
    let restarts = 0;
    for (let step = 1; events + worker.events < EVENTS; step++) {
      worker.step();
      // Now and then the reader gets no time: the buffer overflows.
      if (step % 1000 < 700 && step % 4 === 0) await turn();
      if (step % 397 === 0) proxy.cut();
      if (step % 1499 === 0) {
        events += worker.events;
        worker = await start(++restarts);
        proxy.turnTo(portOf(worker.toy));
        proxy.cut();
      }
    }
    const truth = expectedLines(worker.history.snapshot().blocks, SCOPE);
    await expect.poll(() => mirror.lines(), { timeout: 10_000 }).toEqual(truth);
    expect(truth.length).toBeGreaterThan(50);
    expect(restarts).toBeGreaterThan(0);
    expect(mirror.resets.length).toBeGreaterThan(restarts);
    expect(mirror.orphans).toBe(0);
  },
);

test("[CL192] a worker that is older sends events in full, which are followed as well", async () => {
  const toy = await serveToy();
  const older = createServer((request, response) => {
    const asked = (request.url ?? "").replace("&runs=packed", "");
    const stream = get(toy.server.url + asked, (answer) => {
      response.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.pipe(response);
    });
    stream.on("error", () => response.destroy());
    response.once("close", () => stream.destroy());
  });
  await new Promise<void>((resolve) => older.listen(0, "127.0.0.1", resolve));
  closing.push({ close: async () => void older.close().closeAllConnections() });
  const { port } = older.address() as AddressInfo;
  const { mirror } = follow(`http://127.0.0.1:${port}`);
  await expect.poll(() => mirror.resets.length).toBe(1);
  toy.model.cache.emit(stored(null, 1n, 2n));
  await expect.poll(() => mirror.size).toBe(2);
});

test("[CL20] moves between three levels, tails and clearings are followed", async () => {
  const toy = await serveToy();
  const { cache } = toy.model;
  const history = new RandomHistory(5, (event) => cache.queue(event));
  cache.blocks = () => history.snapshot(0).blocks;
  const { mirror } = follow(toy.server.url);
  await expect.poll(() => mirror.resets.length).toBe(1);
  for (let step = 0; step < 4000; step++) {
    history.step();
    cache.flush();
    if (step % 20 === 0) await turn();
  }
  const truth = expectedLines(history.snapshot(0).blocks, SCOPE);
  await expect.poll(() => mirror.lines(), { timeout: 5000 }).toEqual(truth);
  expect(truth.some((line) => line.endsWith("001"))).toBe(true);
});

test("[CL21] groups of layers with equal hashes are told apart", async () => {
  const toy = await serveToy();
  const blocks = [0, 1, 2].map((group) => {
    return { ...storedBlock(7n), parentHash: null, ...(group > 0 && { group }) };
  });
  toy.model.cache.blocks = () => blocks;
  const { mirror } = follow(toy.server.url);
  await expect.poll(() => mirror.size).toBe(3);
  expect(mirror.lines()).toEqual(expectedLines(blocks, SCOPE));
});

test("[CL21] images and extra ids are no text: such blocks and what follows are left out", async () => {
  const toy = await serveToy();
  const { mirror } = follow(toy.server.url);
  await expect.poll(() => mirror.resets.length).toBe(1);
  const image = storedBlock(2n, { multimodalKeys: [{ hash: "ab", startOffset: 0 }] });
  toy.model.cache.emit(
    stored(null, 1n),
    { type: "stored", parentHash: 1n, blocks: [image, storedBlock(3n)] },
    { type: "stored", parentHash: 1n, blocks: [storedBlock(4n, { extraIds: [0, 0, 0, 1] })] },
    stored(1n, 5n),
  );
  await expect.poll(() => mirror.size).toBe(2);
  expect(mirror.orphans).toBe(1);
});

test("[CL22] a place in the stream outlives a cut: only what is new comes again", async () => {
  const toy = await serveToy();
  const proxy = await CutProxy.start(portOf(toy));
  closing.push(proxy);
  const { mirror, feed } = follow(proxy.url);
  toy.model.cache.emit(stored(null, 1n));
  await expect.poll(() => feed.lag).toBe(0);
  proxy.cut();
  toy.model.cache.emit(stored(null, 2n), removed(1n));
  await expect.poll(() => mirror.warnings.length).toBe(1);
  await expect.poll(() => feed.lag).toBe(0);
  expect(mirror.resets).toHaveLength(1);
});

test("[CL23] one line says that a worker is away, and it is asked again and again", async () => {
  const { mirror } = follow("http://127.0.0.1:9");
  await sleep(400);
  expect(mirror.warnings).toHaveLength(1);
  expect(mirror.warnings[0]).toContain("Cannot follow KV events of http://127.0.0.1:9");
});

test("[CL23] a worker that says nothing any more is left, and asked anew", async () => {
  const toy = await serveToy({}, { streamKeepAliveMs: 60_000 });
  const { mirror } = follow(toy.server.url, { silenceMs: 60 });
  await expect.poll(() => mirror.warnings.length, { timeout: 3000 }).toBe(1);
  expect(mirror.warnings[0]).toContain("nothing came for 60 ms");
});

test("[CL259] what is read of a worker counts, though nonsense comes with it: it is soon asked again", async () => {
  const part = {
    ...{ first: true, last: true, next_event_id: 1, num_blocks_per_cache_level: [4] },
    blocks: [],
  };
  const good = `id: 0-a\nevent: snapshot\ndata: ${JSON.stringify(part)}\n\n`;
  const { url, asked } = await streaming(`${good}id: 1-a\ndata: {"event_id": "none"}\n\n`);
  const { mirror } = follow(url, { retryMs: [10, 60_000] });
  await expect.poll(asked, { timeout: 20_000 }).toBeGreaterThan(20);
  expect(mirror.resets.length).toBeGreaterThan(18);
  // It is told at a pace, also where each stream began well.
  expect(mirror.warnings).toHaveLength(1);
});

test("[CL259] a worker of which nothing can be read is asked after growing waits", async () => {
  const { url, asked } = await streaming("event: snapshot\ndata: {}\n\n");
  follow(url, { retryMs: [10, 60_000] });
  await sleep(1500);
  expect(asked()).toBeLessThan(12);
});

/** A worker each of whose streams is the same text, in one piece. */
async function streaming(text: string): Promise<{ url: string; asked: () => number }> {
  let asked = 0;
  const server = createServer((_request, response) => {
    asked++;
    response.writeHead(200, { "content-type": "text/event-stream" }).end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push({
    close: async () => {
      server.closeAllConnections();
      server.close();
    },
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, asked: () => asked };
}

test("the worker's key is sent", async () => {
  const toy = await serveToy({}, { apiKey: ["secret"] });
  const { mirror } = follow(toy.server.url, { apiKey: "secret" });
  await expect.poll(() => mirror.resets.length).toBe(1);
  const without = follow(toy.server.url);
  await expect.poll(() => without.mirror.warnings.length).toBe(1);
  expect(without.mirror.warnings[0]).toContain("it answered 401");
});

test("[CL24] blocks of another size than the worker says are refused, not passed over", async () => {
  const toy = await serveToy();
  const block = storedBlock(1n, { tokenIds: Array.from({ length: 16 }, (_, place) => place) });
  toy.model.cache.blocks = () => [{ ...block, parentHash: null }];
  const { mirror } = follow(toy.server.url);
  await expect.poll(() => mirror.warnings.length).toBe(1);
  expect(mirror.warnings[0]).toContain("blocks must have 4 tokens, as the worker says");
});
