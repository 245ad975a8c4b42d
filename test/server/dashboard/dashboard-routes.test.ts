import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { CacheAsk, CacheReport, ServedModel, TimedLook } from "#engine";
import { TreeLook } from "../../../src/server/dashboard/tree-look.ts";
import { json } from "../../support/json.ts";
import { SseReader } from "../../support/sse.ts";
import { ToyModel } from "../../support/toy-model.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeToyServers();

const bearer = (key: string) => ({ headers: { authorization: `Bearer ${key}` } });

/** Gives a toy a cache that people can look into. */
function withCache(model: ToyModel, answer: (ask: CacheAsk) => Partial<TimedLook> = () => ({})) {
  const asks: CacheAsk[] = [];
  const look = async (ask: CacheAsk): Promise<TimedLook> => {
    asks.push(ask);
    return { levels: null, prefixes: null, tokens: null, tookMs: 0, ...answer(ask) };
  };
  Object.assign(model, { look });
  return asks;
}

/** Messages of a stream until one has the name. */
async function nextNamed(reader: SseReader, name: string): Promise<Record<string, unknown>> {
  for (;;) {
    const message = await reader.next();
    if (message === null) throw new Error(`The stream ended before ${name}`);
    if (message.event === name) return JSON.parse(message.data);
  }
}

test("the stream begins with what is served, then tells the state again and again", async () => {
  const { get, post, model } = await serveToy();
  const reader = new SseReader(await get("/dashboard/events"));
  expect(await nextNamed(reader, "hello")).toMatchObject({
    ...{ kind: "server", models: ["toy"], canLook: false, admin: false, hasAdmin: false },
    model: { name: "toy", device: "toy", blockTokens: 16, hasChat: true },
  });
  expect(await nextNamed(reader, "now")).toMatchObject({
    ...{ running: 0, waiting: 0, viewers: 1, steps: [], ended: [] },
    firstToken: { count: 0, p50: null, p99: null },
  });
  await post("/v1/completions", { prompt: "one two", max_tokens: 6 });
  const message = await nextNamed(reader, "now");
  const { generatedTokens } = model.stats();
  expect(message).toMatchObject({
    ...{ totals: { generatedTokens, promptTokens: 7 }, endedMore: 0 },
    ended: [[7, 0, generatedTokens, 0, 0.01, 0.02]],
    firstToken: { count: 1 },
    gap: { count: generatedTokens },
  });
  await reader.close();
});

test("texts of prompts and answers are in no message", async () => {
  const { get, post } = await serveToy();
  const reader = new SseReader(await get("/dashboard/events?view=cache"));
  await post("/v1/completions", { prompt: "a very private word", max_tokens: 20, user: "who" });
  let text = "";
  for (let turn = 0; turn < 4; turn++) text += JSON.stringify(await reader.next());
  expect(text).toContain("generatedTokens");
  expect(text).not.toMatch(/private/i);
  await reader.close();
});

test("nothing listens to the model while no page is open", async () => {
  const { get, model } = await serveToy();
  const before = model.listenerCount;
  const readers = await Promise.all(
    [1, 2].map(async () => new SseReader(await get("/dashboard/events"))),
  );
  for (const reader of readers) await nextNamed(reader, "now");
  expect(model.listenerCount).toBe(before + 2);
  for (const reader of readers) await reader.close();
  await expect.poll(() => model.listenerCount, { timeout: 10_000 }).toBe(before);
});

test("a page that goes to another view misses no request that ends meanwhile", async () => {
  const { get, post } = await serveToy();
  const ended: unknown[] = [];
  const next = async (reader: SseReader): Promise<void> => {
    const message = await nextNamed(reader, "now");
    if (Array.isArray(message.ended)) ended.push(...message.ended);
  };
  const before = new SseReader(await get("/dashboard/events"));
  await next(before);
  await post("/v1/completions", { prompt: "one two", max_tokens: 6 });
  await before.close();
  // Longer than a tick: no message of the time between goes anywhere.
  await sleep(600);
  await post("/v1/completions", { prompt: "three four five", max_tokens: 6 });
  const after = new SseReader(await get("/dashboard/events?view=cache"));
  await next(after);
  await next(after);
  await after.close();
  expect(ended).toHaveLength(2);
});

test("only as many pages may be open as the operator says", async () => {
  const { get } = await serveToy({}, { dashboardViewersMax: 1 });
  const reader = new SseReader(await get("/dashboard/events"));
  await nextNamed(reader, "now");
  const refused = await get("/dashboard/events");
  expect(refused.status).toBe(429);
  expect((await json(refused)).error?.message).toContain("at most 1 pages may be open");
  await reader.close();
  await expect
    .poll(async () => (await get("/dashboard/events")).status, { timeout: 10_000 })
    .toBe(200);
});

test.for(["/dashboard/events", "/dashboard/prefixes", "/dashboard/text?node=1&serial=0"])(
  "%s needs a key like the API does; an admin key is one",
  async (path) => {
    const { get, model } = await serveToy({}, { apiKey: ["key"], adminKey: ["admin"] });
    withCache(model);
    expect((await get(path)).status).toBe(401);
    expect((await get(path, bearer("other"))).status).toBe(401);
    expect((await get(`${path}${path.includes("?") ? "&" : "?"}key=key`)).status).toBe(401);
    const allowed = path.startsWith("/dashboard/text") ? [403, 200] : [200, 200];
    const statuses = [];
    for (const key of ["key", "admin"]) {
      const answer = await get(path, bearer(key));
      statuses.push(answer.status);
      await answer.body?.cancel();
    }
    expect(statuses).toEqual(allowed);
  },
);

test("an admin key is asked for texts, even where the API needs none", async () => {
  const { get, model } = await serveToy({}, { adminKey: ["admin"] });
  const tokenIds = [..."a secret"].map((letter) => letter.charCodeAt(0));
  const asks = withCache(model, () => ({ tokens: { tokenIds, skipped: 16 } }));
  const path = "/dashboard/text?node=3&serial=7";
  for (const given of [undefined, bearer("other"), bearer("")]) {
    expect((await get(path, given)).status).toBe(403);
  }
  expect(asks).toEqual([]);
  expect(await json(get(path, bearer("admin")))).toEqual({
    text: "a secret",
    tokens: 8,
    skipped: 16,
  });
  expect(asks).toEqual([{ tokens: { node: 3, serial: 7, tokensMax: 1024 } }]);
  expect((await get("/dashboard/text", bearer("admin"))).status).toBe(400);
});

test("without admin keys no key shows texts", async () => {
  const { get, model } = await serveToy({}, { apiKey: ["key"] });
  withCache(model);
  for (const key of ["key", "", "undefined"]) {
    const answer = await get("/dashboard/text?node=1&serial=0", bearer(key));
    expect([401, 403]).toContain(answer.status);
  }
});

test("keys are in no answer of the server about itself", async () => {
  const options = { apiKey: ["first-key"], adminKey: ["second-key"] };
  const { get } = await serveToy({}, options);
  const info = await (await get("/server_info", bearer("first-key"))).text();
  expect(info).toContain('"admin_keys":1');
  expect(info).not.toMatch(/first-key|second-key/);
});

test("a part of the tree is answered with its runs", async () => {
  const { get, model } = await serveToy();
  const picture = {
    ...{ runs: [], contents: 0, hiddenRuns: 0, hiddenContents: 0, depth: 0, complete: true },
  };
  const asks = withCache(model, () => ({ prefixes: picture }));
  expect(await json(get("/dashboard/prefixes?runs=20"))).toEqual({ picture });
  expect(asks).toEqual([{ prefixes: { root: null, runsMax: 20 } }]);
});

test("many who ask for the same part of the tree share one look", async () => {
  const model = new ToyModel();
  const asks = withCache(model);
  const served: ServedModel = model;
  const tree = new TreeLook(served);
  const ask = { prefixes: { root: null, runsMax: 20 } };
  await Promise.all(Array.from({ length: 50 }, () => tree.look(ask)));
  expect(asks).toEqual([ask]);
});

test("different questions wait for each other, and too many are refused", async () => {
  const { get, model } = await serveToy();
  let open = 0;
  let openMax = 0;
  let release = () => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const look = async () => {
    openMax = Math.max(openMax, ++open);
    await gate;
    open--;
    return { levels: null, prefixes: null, tokens: null, tookMs: 0 };
  };
  Object.assign(model, { look });
  const statuses: number[] = [];
  const asking = Array.from({ length: 40 }, async (_, node) => {
    statuses.push((await get(`/dashboard/prefixes?node=${node}&serial=0`)).status);
  });
  await expect.poll(() => statuses, { timeout: 10_000 }).toEqual(Array(32).fill(429));
  release();
  await Promise.all(asking);
  expect(statuses.slice(32)).toEqual(Array(8).fill(200));
  expect(openMax).toBe(1);
});

test.for([
  ...["runs=-1", "runs=401", "runs=x", "runs=", "runs=1&runs=2", "node=1.5&serial=0", "runs=1e2"],
  ...["node=99999999999&serial=0", "node[]=1&serial=0&runs=%00", "serial=0x1&node=1"],
])("a tree cannot be asked for by ?%s", async (query) => {
  const { get, model } = await serveToy();
  withCache(model);
  const answer = await get(`/dashboard/prefixes?${query}`);
  const isIgnored = query.startsWith("node[]");
  expect(answer.status).toBe(400);
  expect((await json(answer)).error?.message).toMatch(
    isIgnored ? /runs must be/ : /must be a whole number up to/,
  );
});

test("a view that there is not is refused, and so is a look without a cache", async () => {
  const { get } = await serveToy();
  expect((await get("/dashboard/events?view=all")).status).toBe(400);
  expect((await get("/dashboard/events?view=now&view=cache")).status).toBe(400);
  expect((await get("/dashboard/prefixes")).status).toBe(400);
});

test("maps go to those who look at the cache, in bounded messages", async () => {
  const cells = new Uint8Array(1536 * 3).fill(200);
  const map = { level: 0, blocks: 1e6, blocksPerCell: 652, readPerCell: 85, cells } as const;
  const { get, model } = await serveToy({ cacheReport: report() });
  const asks = withCache(model, () => ({ levels: [map, { ...map, level: 1 }] }));
  const now = new SseReader(await get("/dashboard/events"));
  const cache = new SseReader(await get("/dashboard/events?view=cache"));
  const message = await nextNamed(cache, "cache");
  expect(JSON.stringify(message).length).toBeLessThan(32_768);
  expect(message).toMatchObject({
    levels: [
      { level: "device", blocks: 1e6, blocksPerCell: 652, readPerCell: 85 },
      { level: "host" },
    ],
    report: { levels: [{ level: "device", hitTokens: 12, offloaded: 3 }] },
  });
  expect(asks[0]).toEqual({ cellsMax: 1536 });
  for (let turn = 0; turn < 4; turn++) expect((await now.next())?.event).not.toBe("cache");
  // The same map again is not sent again.
  expect((await cache.next())?.event).toBe("now");
  expect((await cache.next())?.event).toBe("now");
  await Promise.all([now.close(), cache.close()]);
});

test("looks take at most a hundredth of the engine's time", async () => {
  const { get, model } = await serveToy();
  let turn = 0;
  const asks = withCache(model, () => ({ levels: [], tookMs: turn++ === 0 ? 6000 : 0 }));
  const reader = new SseReader(await get("/dashboard/events?view=cache"));
  await nextNamed(reader, "cache");
  for (let tick = 0; tick < 4; tick++) await nextNamed(reader, "now");
  expect(asks).toHaveLength(1);
  await reader.close();
});

test("streams end when the server closes", async () => {
  const { get, server } = await serveToy();
  const reader = new SseReader(await get("/dashboard/events"));
  await nextNamed(reader, "now");
  const closing = server.close();
  while ((await reader.next()) !== null);
  await closing;
});

function report(): CacheReport {
  const move = { blocks: 0, bytes: 0, seconds: 0 };
  return {
    levels: [
      {
        ...{ level: "device", free: 1, held: 2, cached: 3, total: 6, hitTokens: 12, offloaded: 5 },
        ...{ copiedAhead: 2, onboarded: 0, forgotten: 0, dropped: 0, orphaned: 0, expired: 0 },
      },
    ],
    ...{ copiedBlocks: 0, swappedOutBlocks: 0, swappedInBlocks: 0, diskFailures: 0 },
    peers: { sent: 0, received: 0, missed: 0 },
    moves: { copy: move, offload: move, onboard: move, diskWrite: move, diskRead: move },
    sent: { bytes: 0, mapped: 0, nixl: 0 },
    fetched: { pieces: 0, seconds: 0 },
    kvByteSeconds: 0,
  };
}
