import { expect, test } from "vitest";
import { json } from "../../support/json.ts";
import { closeRouters, routeToys } from "../../support/router-fleet.ts";
import { SseReader } from "../../support/sse.ts";
import { closeToyServers } from "../../support/toy-server.ts";

closeRouters();
closeToyServers();

async function nextNamed(reader: SseReader, name: string): Promise<Record<string, unknown>> {
  for (;;) {
    const message = await reader.next();
    if (message === null) throw new Error(`The stream ended before ${name}`);
    if (message.event === name) return JSON.parse(message.data);
  }
}

test("a router's stream tells its workers, what they have to do, and its decisions", async () => {
  const deadlines = { ttftDeadline: 500, tbtDeadline: 80 };
  const { get, post, workers } = await routeToys([{}, {}], deadlines);
  const reader = new SseReader(await get("/dashboard/events"));
  expect(await nextNamed(reader, "hello")).toMatchObject({
    ...{ kind: "router", models: ["toy"], model: null, admin: false, canLook: false },
  });
  const first = await nextNamed(reader, "fleet");
  expect(first).toMatchObject({
    ...{ policy: "kv", ttftDeadlineMs: 500, tbtDeadlineMs: 80, waiting: 0, workersMore: 0 },
    ...{ decisions: [], viewers: 1 },
  });
  expect(first.workers).toMatchObject(
    workers.map(({ server }) => ({
      url: server.url,
      kind: "perigee",
      role: "both",
      state: "ready",
    })),
  );
  await post("/v1/completions", { prompt: "a private prompt", max_tokens: 2, model: "toy" });
  const { decisions } = await nextNamed(reader, "fleet");
  const [line, ...more] = decisions as string[];
  expect(more).toEqual([]);
  expect(JSON.parse(line ?? "")).toHaveProperty("request");
  expect(line).not.toContain("private");
  expect((await nextNamed(reader, "fleet")).decisions).toEqual([]);
  await reader.close();
});

test("a page that comes later sees the last decisions", async () => {
  const { get, post } = await routeToys([{}]);
  for (let turn = 0; turn < 100; turn++) {
    await post("/v1/completions", { prompt: `${turn}`, max_tokens: 1, model: "toy" });
  }
  const reader = new SseReader(await get("/dashboard/events"));
  const { decisions } = await nextNamed(reader, "fleet");
  expect(decisions).toHaveLength(32);
  await reader.close();
});

test("a router's page asks for a key as its API does, and has as many viewers as it may", async () => {
  const { get } = await routeToys([{}], { apiKey: ["key"], dashboardViewersMax: 1 });
  expect((await get("/dashboard/events")).status).toBe(401);
  const bearer = { headers: { authorization: "Bearer key" } };
  const reader = new SseReader(await get("/dashboard/events", bearer));
  await nextNamed(reader, "fleet");
  expect((await get("/dashboard/events", bearer)).status).toBe(429);
  await reader.close();
  expect(await json(get("/"))).toMatchObject({ name: "perigee router" });
});
