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

function cachesOf(info: WorkerInfo): FleetCaches {
  const membership: Membership = {
    workers: new Map([[info.id, { info, state: "ready" }]]),
    listen: () => () => {},
    close: async () => {},
  };
  const http = new WorkerHttp();
  const caches = new FleetCaches(membership, {
    ...{ clock: systemClock, bytesMax: 2 ** 22, ttlMs: 60_000, streams: null, http },
    apiKeyOf: () => null,
    onStored: () => {},
    onLeft: () => {},
    say: () => {},
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
