import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { systemClock } from "#base";
import { WorkerHttp } from "#cluster/http";
import type { Membership, WorkerInfo } from "#cluster/protocol";
import { FleetCaches } from "../../../src/cluster/router/fleet-caches.ts";
import { EnginePublisher } from "../../support/engine-publisher.ts";
import { workerInfo } from "../../support/worker-info.ts";

const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of closing.splice(0).reverse()) await each.close();
});

function cachesOf(info: WorkerInfo, readsTokens = true): FleetCaches {
  const membership: Membership = {
    workers: new Map([[info.id, { info, state: "ready" }]]),
    heardMs: 0,
    listen: () => () => {},
    learnRole: () => {},
    close: async () => {},
  };
  const http = new WorkerHttp();
  const caches = new FleetCaches(membership, {
    ...{ clock: systemClock, bytesMax: 2 ** 22, ttlMs: 60_000, streams: null, http },
    apiKeyOf: () => null,
    onStored: () => {},
    onLeft: () => {},
    say: () => {},
    readsTokens: () => readsTokens,
  });
  closing.push(http, caches);
  return caches;
}

const TOKENS = Uint32Array.from({ length: 8 }, (_, at) => at + 1);

/** Blocks that the worker is thought to have of the prompt that was routed. */
function foundOf(caches: FleetCaches, info: WorkerInfo, isRouted: boolean): number {
  const place = caches.placeOf(info);
  if (place === null) throw new Error("It is a member");
  const { model, blockTokens } = place;
  const prompt = caches.index.blocksOf(
    { model, blockTokens, salt: null, lora: null, group: 0 },
    TOKENS,
  );
  if (isRouted) place.routed?.(prompt);
  return caches.index.find(prompt)[0]?.levels[2] ?? 0;
}

test("[CL93] what an engine whose events are off was sent is guessed, until its first event", async () => {
  const publisher = await EnginePublisher.start();
  closing.push(publisher);
  const { endpoint } = publisher;
  const zmq = { endpoint, replayEndpoint: null, topic: "", ranks: 1 };
  const kv = { blockTokens: 4, blocks: [100], groupWindows: [null], zmq };
  const info = workerInfo({ id: "vllm", kind: "vllm", kv });
  const caches = cachesOf(info);
  expect(foundOf(caches, info, false)).toBe(0);
  expect(foundOf(caches, info, true)).toBe(2);
  expect(caches.reports()).toMatchObject([{ announces: true, changes: 0, unannounced: 1 }]);
  // It tells of the first block alone: nothing is guessed of that from now on.
  const stored = ["BlockStored", [7], null, [...TOKENS.subarray(0, 4)], 4, null, "GPU"];
  await expect
    .poll(async () => {
      await publisher.publish([stored]);
      return caches.reports()[0]?.changes;
    })
    .toBeGreaterThan(0);
  expect(foundOf(caches, info, true)).toBe(2);
  expect(caches.reports()).toMatchObject([{ unannounced: 1 }]);
});

test("[CL93] a Perigee that has announced nothing has nothing yet", () => {
  const info = workerInfo();
  const caches = cachesOf(info);
  foundOf(caches, info, true);
  expect(caches.reports()).toMatchObject([{ announces: true, unannounced: 0 }]);
});

test("[CL256] a worker's events are read from the first prompt of tokens on, or at once", async () => {
  let streams = 0;
  const server = createServer((_request, response) => {
    streams++;
    response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push({
    close: async () => {
      server.closeAllConnections();
      server.close();
    },
  });
  const { port } = server.address() as AddressInfo;
  const info = workerInfo({ url: `http://127.0.0.1:${port}` });
  const caches = cachesOf(info, false);
  caches.placeOf(info, { isText: true, tokens: TOKENS });
  caches.placeOf(info, { tokens: null });
  await sleep(50);
  expect(streams).toBe(0);
  expect(caches.reports()).toMatchObject([{ announces: true, isFollowed: false }]);
  for (let prompt = 0; prompt < 3; prompt++) caches.placeOf(info, { tokens: TOKENS });
  await expect.poll(() => streams).toBe(1);
  expect(caches.reports()).toMatchObject([{ isFollowed: true }]);
  const eager = cachesOf(info);
  await expect.poll(() => streams).toBe(2);
  expect(eager.reports()).toMatchObject([{ isFollowed: true }]);
});

/** Blocks that a worker is found to have for a request of this model. */
function foundFor(caches: FleetCaches, info: WorkerInfo, model: string): number {
  const place = caches.placeOf(info, { model });
  if (place === null) throw new Error("It is a member");
  const { lora = null, blockTokens } = place;
  const scope = { model: place.model, blockTokens, salt: null, lora, group: 0 };
  return caches.index.find(caches.index.blocksOf(scope, TOKENS))[0]?.levels[2] ?? 0;
}

async function announcing(kind: "vllm" | "sglang", adapters: readonly string[]) {
  const publisher = await EnginePublisher.start();
  closing.push(publisher);
  const zmq = { endpoint: publisher.endpoint, replayEndpoint: null, topic: "", ranks: 1 };
  const kv = { blockTokens: 4, blocks: [100], groupWindows: [null], zmq };
  const models = ["base", ...adapters];
  const info = workerInfo({ id: kind, kind, kv, models, adapters, fingerprint: null });
  const caches = cachesOf(info);
  /** As often as it takes until the feed is connected. */
  const tell = (...events: readonly unknown[]) =>
    expect
      .poll(async () => {
        await publisher.publish(events);
        return caches.reports()[0]?.changes;
      })
      .toBeGreaterThan(0);
  const found = () =>
    Object.fromEntries(models.map((name) => [name, foundFor(caches, info, name)]));
  return { info, caches, tell, found };
}

const STORED = { type: "BlockStored", parent_block_hash: null, block_size: 4, medium: "GPU" };
const RUN = { block_hashes: [11, 12], token_ids: [...TOKENS], group_idx: 0 };

test("[CL153] blocks of vLLM's adapters are theirs alone, in lists and maps of all versions", async () => {
  const names = ["tuned", "other", "7"];
  const named = await announcing("vllm", names);
  const event = { ...STORED, ...RUN, lora_id: null, lora_name: "tuned" };
  await named.tell({ ...event, extra_keys: [["tuned"], ["tuned"]] });
  expect(named.found()).toEqual({ base: 0, tuned: 2, other: 0, 7: 0 });
  // vLLM up to 0.13 tells a number, which is no name: not even that of an adapter called so.
  const numbered = await announcing("vllm", names);
  await numbered.tell(["BlockStored", [11, 12], null, [...TOKENS], 4, 7, "GPU"]);
  expect(numbered.found()).toEqual({ base: 0, tuned: 0, other: 0, 7: 0 });
  const base = await announcing("vllm", names);
  await base.tell(["BlockStored", [11, 12], null, [...TOKENS], 4, null, "GPU", null, [null, null]]);
  expect(base.found()).toEqual({ base: 2, tuned: 0, other: 0, 7: 0 });
  // A salt that is the adapter's name is a salt all the same.
  const salted = await announcing("vllm", names);
  await salted.tell({ ...event, extra_keys: [["tuned", "tuned"], ["tuned"]] });
  expect(salted.found()).toEqual({ base: 0, tuned: 0, other: 0, 7: 0 });
});

test("[CL153] of an SGLang with adapters, whose events name none, what it was sent counts", async () => {
  const { caches, info, tell, found } = await announcing("sglang", ["tuned"]);
  await tell(["BlockStored", [11, 12], null, [...TOKENS], 4, null, "GPU"]);
  expect(found()).toEqual({ base: 0, tuned: 0 });
  const place = caches.placeOf(info, { model: "tuned" });
  if (place === null) throw new Error("It is a member");
  const scope = { model: place.model, blockTokens: 4, salt: null, lora: "tuned", group: 0 };
  place.routed?.(caches.index.blocksOf(scope, TOKENS));
  expect(found()).toEqual({ base: 0, tuned: 2 });
  // Without adapters its events are those of its one model.
  const plain = await announcing("sglang", []);
  await plain.tell(["BlockStored", [11, 12], null, [...TOKENS], 4, null, "GPU"]);
  expect(plain.found()).toEqual({ base: 2 });
});
