import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { startServer } from "#server";
import { readEvents } from "../support/events.ts";
import { json } from "../support/json.ts";
import { ToyModel } from "../support/toy-model.ts";
import { closeToyServers, serveToy } from "../support/toy-server.ts";

closeToyServers();

const slow = { reply: () => "w".repeat(60), msPerToken: 2 };
const long = { prompt: "a", max_tokens: 60 };

test("what an address needs that cannot be used is told", async () => {
  const start = (host: string, port = 0) => startServer(new ToyModel({}), { host, port });
  // 192.0.2.0/24 is for documentation: no machine has it.
  await expect(start("192.0.2.1")).rejects.toThrow(/EADDRNOTAVAIL.*; choose an address of this/);
  const { server } = await serveToy();
  const port = Number(new URL(server.url).port);
  await expect(start("127.0.0.1", port)).rejects.toThrow(/EADDRINUSE.*; choose another port$/);
});

test("closing finishes what runs and refuses what comes with 503", async () => {
  const { post, get, model, server } = await serveToy(slow, { shutdownTimeoutMs: 10_000 });
  const streaming = post("/v1/completions", { ...long, stream: true });
  const whole = post("/v1/completions", long);
  while (model.runningCount < 2) await sleep(1);
  const closed = server.close();
  const refused = await post("/v1/completions", long);
  expect(refused.status).toBe(503);
  expect(refused.headers.get("retry-after")).toBe("5");
  expect((await json(refused)).error?.code).toBe("shutting_down");
  expect((await get("/health")).status).toBe(503);
  const text = Object.values((await json(whole)).choices ?? {}).map((choice) => choice.text);
  expect(text).toEqual(["w".repeat(60)]);
  expect((await readEvents(await streaming)).length).toBeGreaterThan(1);
  await closed;
  await expect(get("/health")).rejects.toThrow();
});

test("closing a second time ends what runs at once, with an error", async () => {
  const { post, model, server } = await serveToy(
    { reply: () => "w".repeat(4000), msPerToken: 5 },
    { shutdownTimeoutMs: 60_000 },
  );
  const streaming = await post("/v1/completions", { ...long, max_tokens: 4000, stream: true });
  const whole = post("/v1/completions", { ...long, max_tokens: 4000 });
  while (model.runningCount < 2) await sleep(1);
  const closed = server.close();
  const start = performance.now();
  void server.close();
  expect((await whole).status).toBe(503);
  const events = await readEvents(streaming);
  expect(events.at(-1)?.error?.code).toBe("shutting_down");
  await closed;
  // Its two answers would take four seconds.
  expect(performance.now() - start).toBeLessThan(3000);
  expect(model.runningCount).toBe(0);
});

test("running requests get no longer than the shutdown timeout", async () => {
  const { post, model, server } = await serveToy(
    { reply: () => "w".repeat(4000), msPerToken: 5 },
    { shutdownTimeoutMs: 50 },
  );
  const whole = post("/v1/completions", { ...long, max_tokens: 4000 });
  while (model.runningCount < 1) await sleep(1);
  await server.close();
  expect((await whole).status).toBe(503);
});

test("a port in use is an error that names it", async () => {
  const { server } = await serveToy();
  const port = Number(new URL(server.url).port);
  await expect(startServer(new ToyModel(), { port, logLevel: "silent" })).rejects.toMatchObject({
    code: "IO",
    message: expect.stringContaining(`127.0.0.1:${port}`),
  });
});

test("a wrong option is refused by name", async () => {
  await expect(startServer(new ToyModel(), { port: 70_000 })).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
    param: "port",
  });
});
