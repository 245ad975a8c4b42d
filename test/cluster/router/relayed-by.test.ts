/** What a router says of who relays, and of its workers. */
import { expect, test } from "vitest";
import { relayLibrary } from "../../../src/cluster/router/relay-library.ts";
import { json } from "../../support/json.ts";
import { clientsOf, closeRouters, routeTo, routeToys } from "../../support/router-fleet.ts";
import { closeToyServers } from "../../support/toy-server.ts";

closeRouters();
closeToyServers();

const STREAMED = { model: "toy", prompt: "hello", stream: true, max_tokens: 300 };

async function shown(get: (path: string) => Promise<Response>) {
  const text = await (await get("/metrics")).text();
  const value = (series: string) =>
    Number(
      text
        .split("\n")
        .find((line) => line.startsWith(`perigee_router_${series} `))
        ?.slice(-6)
        .split(" ")
        .pop(),
    );
  return {
    isThere: value("native_relay"),
    streams: value("native_relay_streams"),
    native: value('relayed_tokens_total{by="native"}'),
    javascript: value('relayed_tokens_total{by="javascript"}'),
    gaps: value("time_between_tokens_seconds_count"),
    met: value('deadlines_total{deadline="tbt",met="true"}'),
  };
}

test("[CL262] the native relay can be switched off, and metrics tell who relayed", async () => {
  const { workers, get, post } = await routeToys([
    { defaultName: "toy", reply: () => "x".repeat(300), msPerToken: 1 },
  ]);
  const off = clientsOf(
    await routeTo(
      workers.map(({ server }) => server.url),
      { nativeRelay: "off" },
    ),
  );
  for (const one of [post, off.post]) await (await one("/v1/completions", STREAMED)).text();
  const [both, alone] = [await shown(get), await shown(off.get)];
  expect(both.native + both.javascript).toBe(300);
  expect(alone).toMatchObject({ isThere: 0, streams: 0, native: 0, javascript: 300 });
  if (relayLibrary() === null) expect(both).toMatchObject({ isThere: 0, native: 0 });
  else {
    expect([both.isThere, both.streams]).toEqual([1, 0]);
    // What is there before the loan, and behind the last plain event, JavaScript relays.
    expect(both.native).toBeGreaterThan(0);
  }
});

test("[CL266] gaps between tokens are counted as they come, relayed natively or not", async () => {
  const { get, post } = await routeToys([
    { defaultName: "toy", reply: () => "x".repeat(300), msPerToken: 1 },
  ]);
  const deadlines = { tbt_ms: 60_000 };
  await (await post("/v1/completions", { ...STREAMED, deadlines })).text();
  const { gaps, met, native } = await shown(get);
  // Several may come at once; looks at the thread, four a second, see a few at most.
  expect(gaps).toBeGreaterThan(30);
  expect(gaps).toBeLessThan(300);
  expect(met).toBe(gaps);
  if (relayLibrary() !== null) expect(native).toBeGreaterThan(0);
});

test("[CL263] /server_info speaks of workers in snake_case", async () => {
  const { get, post } = await routeToys([{ defaultName: "toy" }]);
  await (await post("/v1/completions", { ...STREAMED, max_tokens: 3 })).text();
  const { workers = [] } = (await json(await get("/server_info"))) as unknown as {
    readonly workers: readonly Readonly<Record<string, unknown>>[];
  };
  expect(workers).toHaveLength(1);
  const [worker = {}] = workers;
  expect(worker).toMatchObject({
    ...{ id: expect.any(String), url: expect.any(String), state: "ready", breaker: "closed" },
    context_tokens_max: expect.any(Number),
    role_epoch: 0,
    books: { requests: 0, uncached_tokens: 0, held_blocks: 0 },
  });
  const names = (value: unknown): string[] =>
    typeof value !== "object" || value === null
      ? []
      : Object.entries(value).flatMap(([name, inner]) => [name, ...names(inner)]);
  expect(names(worker).filter((name) => !/^(\d+|[a-z]+(_[a-z]+)*)$/.test(name))).toEqual([]);
});
