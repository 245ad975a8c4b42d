/** Deadlines of requests at real routers: workers without a model, and pools with the bundled one. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FleetProcess } from "../../support/fleet-process.ts";
import { json } from "../../support/json.ts";
import { until } from "../../support/until.ts";

const QUIET = ["--port", "0", "--log-level", "warn"];
const MOCK = ["worker", "--mock", "--served-model-name", "mock", ...QUIET];
const MODEL = ["--device", "cpu", "--dtype", "float32", "--threads", "1", ...QUIET];

const started: FleetProcess[] = [];

async function start(words: readonly string[]): Promise<FleetProcess> {
  const process = await FleetProcess.start([...words]);
  started.push(process);
  return process;
}

async function startRouter(workers: readonly FleetProcess[], ...flags: string[]) {
  const list = workers.flatMap(({ url }) => ["--worker", url]);
  const router = await start(["route", ...QUIET, ...list, ...flags]);
  await until("all are known", async () => {
    const { workers: known } = await json(await fetch(`${router.url}/server_info`));
    return Array.isArray(known) && known.length === workers.length;
  });
  return router;
}

afterAll(async () => {
  for (const process of started) await process.end("SIGKILL");
});

function ids(seed: number, length: number): number[] {
  return Array.from({ length }, (_, place) => 300 + ((seed * 7919 + place * 104_729) % 3000));
}

async function ask(router: FleetProcess, body: object, path = "completions") {
  const response = await fetch(`${router.url}/v1/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ max_tokens: 20, ignore_eos: true, stream: true, ...body }),
  });
  const text = await response.text();
  return { status: response.status, text, retryAfter: response.headers.get("retry-after") };
}

async function metric(router: FleetProcess, name: string, ...labels: string[]): Promise<number> {
  const text = await (await fetch(`${router.url}/metrics`)).text();
  const lines = text.split("\n").filter((line) => line.startsWith(`perigee_router_${name}`));
  const found = lines.filter((line) => labels.every((label) => line.includes(label)));
  return found.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

/** Prompts of several lengths, one behind the other: predictions stand on them. */
async function warmUp(router: FleetProcess, model: string): Promise<void> {
  for (let at = 0; at < 14; at++) {
    const prompt = ids(at + 1, 100 + 60 * (at % 6));
    const { status, text } = await ask(router, { model, prompt });
    expect([status, text.slice(0, 300)]).toEqual([200, expect.stringContaining("data:")]);
  }
}

describe("deadlines at a router before workers without pools", () => {
  let router: FleetProcess;
  let worker: FleetProcess;

  beforeAll(async () => {
    worker = await start(MOCK);
    router = await startRouter([worker], "--ttft-deadline", "60000", "--tbt-deadline", "5000");
    await warmUp(router, "mock");
  });

  test("[CL204] what would miss its deadline gets 429 and when to come again", async () => {
    const sent = await metric(router, "worker_requests_total");
    const prompt = ids(99, 2000);
    const own = { model: "mock", prompt, deadlines: { ttft_ms: 0.01 } };
    const { status, text, retryAfter } = await ask(router, own);
    expect(status).toBe(429);
    expect(Number(retryAfter)).toBeGreaterThan(0);
    const { error } = JSON.parse(text);
    expect(error).toMatchObject({ code: "deadline_unmeetable", param: "deadlines.ttft_ms" });
    expect(error.message).toMatch(/first token must come within 0.01 ms/);
    const tbt = await ask(router, { model: "mock", prompt, deadlines: { tbt_ms: 0.001 } });
    expect([tbt.status, JSON.parse(tbt.text).error.param]).toEqual([429, "deadlines.tbt_ms"]);
    expect(await metric(router, "worker_requests_total")).toBe(sent);
    expect(await metric(router, "early_rejections_total", 'reason="ttft"')).toBe(1);
    expect(await metric(router, "early_rejections_total", 'reason="tbt"')).toBe(1);
  });

  test("[CL204] the same request without that deadline is answered", async () => {
    const prompt = ids(99, 2000);
    for (const deadlines of [undefined, null, {}, { ttft_ms: null }, { ttft_ms: 60_000 }]) {
      expect((await ask(router, { model: "mock", prompt, deadlines })).status).toBe(200);
    }
    const messages = [{ role: "user", content: "Hi" }];
    const chat = { model: "mock", messages, deadlines: { ttft_ms: 60_000, tbt_ms: 5000 } };
    expect((await ask(router, chat, "chat/completions")).status).toBe(200);
  });

  test.each([
    ...["1", [], "soon", 1, true, { ttft: 1 }, { ttft_ms: "1" }, { ttft_ms: 0 }, { tbt_ms: -1 }],
    ...[{ tbt_ms: 1e10 }, { ttft_ms: {} }, { ttft_ms: [1] }, { ttft_ms: false }],
    { ttft_ms: 5, more: 1 },
  ])("[CL205] deadlines %j are refused, and name the field", async (deadlines) => {
    const found = await ask(router, { model: "mock", prompt: [300, 301], deadlines });
    expect([found.status, JSON.parse(found.text).error.param]).toEqual([
      400,
      expect.stringMatching(/^deadlines/),
    ]);
    // A worker says the same of them.
    expect((await ask(worker, { model: "mock", prompt: [300], deadlines })).status).toBe(400);
  });

  test("[CL205] a worker alone takes deadlines and the word batch", async () => {
    const fields = { deadlines: { ttft_ms: 5 }, priority: "batch" };
    expect((await ask(worker, { model: "mock", prompt: [300, 301], ...fields })).status).toBe(200);
    expect((await ask(worker, { model: "mock", prompt: [300], priority: "Batch" })).status).toBe(
      400,
    );
  });

  test("[CL206] gaps, met deadlines and errors of prediction are counted", async () => {
    expect(await metric(router, "time_between_tokens_seconds_count")).toBeGreaterThan(14 * 5);
    expect(await metric(router, "deadlines_total", "ttft", 'met="true"')).toBeGreaterThan(14);
    expect(await metric(router, "deadlines_total", "tbt", 'met="true"')).toBeGreaterThan(14 * 5);
    const text = await (await fetch(`${router.url}/metrics`)).text();
    expect(text).toMatch(/perigee_router_prediction_error\{role="both",of="prefill"\} \d/);
    expect(await metric(router, "open_reservations")).toBe(0);
  });
});

describe("deadlines at a router before pools", () => {
  test("[CL204] pools answer as before, and reject what would come too late", async () => {
    const roles = ["prefill", "decode"];
    const words = roles.map((role) => ["worker", "--role", role, ...MODEL]);
    const workers = await Promise.all(words.map(start));
    const router = await startRouter(workers, "--ttft-deadline", "60000");
    await warmUp(router, "pocket");
    expect(await metric(router, "routed_total", 'reason="pools"')).toBe(14);
    const late = { model: "pocket", prompt: ids(77, 500), deadlines: { ttft_ms: 0.1 } };
    expect((await ask(router, late)).status).toBe(429);
    expect((await ask(router, { ...late, deadlines: {} })).status).toBe(200);
    expect(await metric(router, "early_rejections_total")).toBe(1);
    expect(await metric(router, "prediction_error", 'role="prefill"', 'of="prefill"')).toBeLessThan(
      2,
    );
    expect(await metric(router, "open_reservations")).toBe(0);
  });
});
