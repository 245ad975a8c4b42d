/** Two workers with small caches, one that gives memory alone, and a router, as real processes. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { valuesOf } from "../../chaos/chaos-books.ts";
import { FleetProcess } from "../../support/fleet-process.ts";
import { json } from "../../support/json.ts";
import { NO_REDIS, TestRedis } from "../../support/redis-server.ts";
import { until } from "../../support/until.ts";

const SECRET = "a-secret-of-the-fleet";
const MODEL = ["--device", "cpu", "--dtype", "float32", "--threads", "1", "--log-level", "warn"];
const BLOCK = 16;
const BLOCK_BYTES = 196_608;
const CONTEXT = ["--context-tokens-max", "512", "--speculative", "off"];
/** More than both workers hold, with the host memory that transfers need. */
const PROMPTS = 16;
const PROMPT_TOKENS = 400;
const TEST_MS = 120_000;
const POLL = { timeout: 30_000, interval: 200 };

interface Answer {
  readonly choices: readonly unknown[];
  readonly usage: { readonly prompt_tokens_details: { readonly cached_tokens: number } };
}

let alone: FleetProcess;
let memory: FleetProcess;
let workers: FleetProcess[] = [];
let router: FleetProcess;
const folder = mkdtempSync(join(tmpdir(), "perigee-kv-workers-"));

const headers = { "content-type": "application/json", authorization: `Bearer ${SECRET}` };

function bodyOf(seed: number): object {
  const prompt = Array.from(
    { length: PROMPT_TOKENS },
    (_, at) => 300 + ((seed * 7919 + at * 104_729) % 3000),
  );
  const drawn = seed % 2 === 0 ? { temperature: 0 } : { temperature: 1, seed };
  return { model: "pocket", prompt, max_tokens: 8, ignore_eos: true, ...drawn };
}

async function post(url: string, body: unknown, own: object = headers) {
  const init = { method: "POST", headers: { ...own }, body: JSON.stringify(body) };
  const response = await fetch(url, init);
  return { status: response.status, body: await json(response) };
}

async function ask(url: string, seed: number): Promise<Answer> {
  const { status, body } = await post(`${url}/v1/completions`, bodyOf(seed));
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body as unknown as Answer;
}

async function metricOf(url: string, name: RegExp): Promise<number> {
  const text = await (await fetch(`${url}/metrics`, { headers })).text();
  const line = text.split("\n").find((one) => name.test(one));
  return Number(line?.split(" ").at(-1) ?? 0);
}

const transferred = (url: string, direction: string) =>
  metricOf(url, new RegExp(`^perigee:kv_transfer_blocks_total\\{.*direction="${direction}"`));

/** Blocks that are held on any level. */
async function heldBlocks(url: string): Promise<number> {
  const { stats } = await json(await fetch(`${url}/server_info`, { headers }));
  const { cache } = stats as unknown as { cache: { levels: readonly { held: number }[] } };
  return cache.levels.reduce((sum, { held }) => sum + held, 0);
}

async function openReservations(): Promise<number> {
  const text = await (await fetch(`${router.url}/metrics`, { headers })).text();
  return [...valuesOf(text, "open_reservations").values()].reduce((sum, value) => sum + value, 0);
}

beforeAll(async () => {
  const secretFile = join(folder, "secret");
  writeFileSync(secretFile, SECRET, { mode: 0o600 });
  const fleet = ["--port", "0", "--cluster-secret-file", secretFile, ...MODEL, ...CONTEXT];
  alone = await FleetProcess.start(["worker", ...fleet]);
  const bytes = String(400 * BLOCK_BYTES);
  memory = await FleetProcess.start([
    "worker",
    "--role",
    "kv",
    "--host-cache-bytes",
    bytes,
    ...fleet,
  ]);
  const small = ["--kv-pool-bytes", String(90 * BLOCK_BYTES), "--kv-transfer", "on"];
  const words = ["worker", ...small, ...fleet];
  workers = await Promise.all([FleetProcess.start(words), FleetProcess.start(words)]);
  const list = [memory, ...workers].flatMap(({ url }) => ["--worker", url]);
  const route = ["route", "--port", "0", ...list, "--cluster-secret-file", secretFile];
  router = await FleetProcess.start([...route, "--log-level", "warn"]);
  await until("all are known", async () => {
    const { workers: known } = await json(await fetch(`${router.url}/server_info`));
    return Array.isArray(known) && known.length === 3;
  });
}, 120_000);

afterAll(async () => {
  for (const one of [alone, router, memory, ...workers]) await one?.end("SIGKILL");
  rmSync(folder, { recursive: true });
});

test(
  "[CL226] prompts that no worker's cache holds come back from memory alone, as the same tokens",
  async () => {
    const expected: Answer[] = [];
    for (let seed = 0; seed < PROMPTS; seed++) expected.push(await ask(alone.url, seed));
    for (let seed = 0; seed < PROMPTS; seed++) {
      const found = await ask(router.url, seed);
      expect(found.choices).toEqual(expected[seed]?.choices);
    }
    const blocks = Math.floor((PROMPT_TOKENS - 1) / BLOCK);
    await expect.poll(() => transferred(memory.url, "received"), POLL).toBe(PROMPTS * blocks);
    await new Promise((resolve) => setTimeout(resolve, 500));
    let cached = 0;
    for (let seed = 0; seed < PROMPTS; seed++) {
      const found = await ask(router.url, seed);
      expect(found.choices).toEqual(expected[seed]?.choices);
      cached += found.usage.prompt_tokens_details.cached_tokens;
    }
    expect(cached / (PROMPTS * PROMPT_TOKENS)).toBeGreaterThan(0.9);
    expect(await transferred(memory.url, "sent")).toBeGreaterThan(blocks);
    // It computed nothing, and the router lists the workers that do.
    expect(await metricOf(memory.url, /^perigee:prompt_tokens_total/)).toBe(0);
    const { data } = await json(await fetch(`${router.url}/v1/models`));
    expect(data).toMatchObject([{ id: "pocket", workers: 2 }]);
    for (const { url } of [memory, ...workers]) {
      await expect.poll(() => heldBlocks(url), POLL).toBe(0);
    }
  },
  TEST_MS,
);

test("[CL220] [CL222] [CL225] it refuses to compute, other roles and strangers", async () => {
  const direct = await post(`${memory.url}/v1/completions`, bodyOf(0));
  expect([direct.status, JSON.stringify(direct.body)]).toEqual([
    400,
    expect.stringContaining("gives memory alone (role kv)"),
  ]);
  const [first] = workers;
  const orders = [
    [memory.url, { role: "both" }, "start another one with --role both"],
    [first?.url ?? "", { role: "kv" }, "start another one with --role kv"],
  ] as const;
  for (const [url, body, remedy] of orders) {
    const refused = await post(`${url}/worker_role`, body);
    expect([refused.status, JSON.stringify(refused.body)]).toEqual([
      400,
      expect.stringContaining(remedy),
    ]);
    const roles = { [url]: body.role };
    const byRouter = await post(`${router.url}/route/roles`, { roles });
    expect([byRouter.status, JSON.stringify(byRouter.body)]).toEqual([
      409,
      expect.stringContaining(remedy),
    ]);
  }
  const order = { prompt_token_ids: [5, 6, 7], source: { host: "127.0.0.1", port: 9 } };
  const none = { "content-type": "application/json" };
  expect((await post(`${memory.url}/kv_fill`, order, none)).status).toBe(401);
  const computing = await post(`${first?.url}/kv_fill`, order);
  expect([computing.status, JSON.stringify(computing.body)]).toEqual([
    400,
    expect.stringContaining("start one with --role kv"),
  ]);
});

test(
  "[CL226] its death costs hits: no request fails, and nothing stays held",
  async () => {
    const seeds = Array.from({ length: 3 * PROMPTS }, (_, at) => at % PROMPTS);
    const expected: Answer[] = [];
    for (let seed = 0; seed < PROMPTS; seed++) expected.push(await ask(alone.url, seed));
    const sent = seeds.map(async (seed, at) => {
      await new Promise((resolve) => setTimeout(resolve, at * 60));
      return await ask(router.url, seed);
    });
    await new Promise((resolve) => setTimeout(resolve, 600));
    memory.signal("SIGKILL");
    const found = await Promise.all(sent);
    for (const [at, { choices }] of found.entries()) {
      expect(choices).toEqual(expected[seeds[at] ?? 0]?.choices);
    }
    for (const { url } of workers) await expect.poll(() => heldBlocks(url), POLL).toBe(0);
    await expect.poll(openReservations, POLL).toBe(0);
  },
  TEST_MS,
);

test.skipIf(NO_REDIS !== null)(
  "[CL226] found through Redis it holds prompts and gives them, as where its address is given",
  async () => {
    const redis = await TestRedis.start();
    const secret = ["--cluster-secret-file", join(folder, "secret")];
    const fleet = ["--port", "0", "--redis", redis.url, ...secret];
    const held = ["--role", "kv", "--host-cache-bytes", String(130 * BLOCK_BYTES)];
    const small = ["--kv-pool-bytes", String(40 * BLOCK_BYTES), "--kv-transfer", "on"];
    const started = [
      await FleetProcess.start(["worker", ...held, ...fleet, ...MODEL, ...CONTEXT]),
      await FleetProcess.start(["worker", ...small, ...fleet, ...MODEL, ...CONTEXT]),
      await FleetProcess.start(["route", ...fleet, "--log-level", "warn"]),
    ] as const;
    const [kv, , route] = started;
    try {
      await until("both are known", async () => {
        const { workers: known } = await json(await fetch(`${route.url}/server_info`));
        return Array.isArray(known) && known.length === 2;
      });
      const blocks = Math.floor((PROMPT_TOKENS - 1) / BLOCK);
      const first = await ask(route.url, 100);
      await expect.poll(() => transferred(kv.url, "received"), POLL).toBe(blocks);
      // These take the place of the first.
      for (const seed of [102, 104, 106, 108]) {
        await ask(route.url, seed);
        await new Promise((resolve) => setTimeout(resolve, 300));
      }
      const again = await ask(route.url, 100);
      expect(again.choices).toEqual(first.choices);
      expect(again.usage.prompt_tokens_details.cached_tokens).toBe(blocks * BLOCK);
      expect(await transferred(kv.url, "sent")).toBeGreaterThan(0);
    } finally {
      for (const one of started) await one.end("SIGKILL");
      await redis.close();
    }
  },
  TEST_MS,
);
