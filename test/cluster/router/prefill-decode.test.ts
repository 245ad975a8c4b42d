/** Pools for prefill and decode as real processes with the bundled model. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { valuesOf } from "../../chaos/chaos-books.ts";
import { FleetProcess } from "../../support/fleet-process.ts";
import { sized } from "../../support/full.ts";
import { json } from "../../support/json.ts";
import { until } from "../../support/until.ts";

const MODEL = ["--device", "cpu", "--dtype", "float32", "--threads", "1", "--log-level", "warn"];
const ROLES = ["prefill", "prefill", "decode", "decode"] as const;
const REQUESTS = sized(10, 100);
const TEST_MS = sized(60_000, 300_000);

interface Body extends Readonly<Record<string, unknown>> {
  readonly prompt: readonly number[];
}

interface Answer {
  readonly choices: readonly unknown[];
  readonly usage: {
    readonly completion_tokens: number;
    readonly perigee?: { readonly kv_byte_seconds: number };
    readonly prompt_tokens_details: { readonly cached_tokens: number };
  };
}

/** Ids of a made-up text: no two seeds begin alike. */
function ids(seed: number, length: number): number[] {
  return Array.from({ length }, (_, place) => 300 + ((seed * 7919 + place * 104_729) % 3000));
}

function bodyOf(seed: number, fields: object = {}): Body {
  const length = 100 + ((seed * 37) % 400);
  return {
    ...{ model: "pocket", prompt: ids(seed, length), max_tokens: 12, ignore_eos: true },
    ...(seed % 2 === 0 ? { temperature: 0 } : { temperature: 1, seed }),
    ...fields,
  };
}

async function ask(url: string, body: Body): Promise<Answer> {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await json(response);
  if (!response.ok) throw new Error(JSON.stringify(answer));
  return answer as unknown as Answer;
}

async function metric(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const line = text.split("\n").find((one) => one.startsWith(`perigee:${name}{`));
  return Number(line?.split(" ").at(-1));
}

/** Requests in the router's books of load. */
async function openReservations(): Promise<number> {
  const text = await (await fetch(`${router.url}/metrics`)).text();
  return [...valuesOf(text, "open_reservations").values()].reduce((sum, value) => sum + value, 0);
}

/** Positions of blocks that are held. */
async function heldTokens(url: string): Promise<number> {
  const [load] = (await json(await fetch(`${url}/get_load`))) as unknown as [
    { readonly num_tokens: number },
  ];
  return load.num_tokens;
}

let alone: FleetProcess;
let workers: FleetProcess[] = [];
let router: FleetProcess;

const urlOf = (at: number): string => workers[at]?.url ?? "";

async function startFleet(): Promise<void> {
  const words = ROLES.map((role) => ["worker", "--port", "0", "--role", role, ...MODEL]);
  workers = await Promise.all(words.map((each) => FleetProcess.start(each)));
  const list = workers.flatMap(({ url }) => ["--worker", url]);
  router = await FleetProcess.start(["route", "--port", "0", ...list, "--log-level", "warn"]);
  await until("all are known", async () => {
    const { workers: known } = await json(await fetch(`${router.url}/server_info`));
    return Array.isArray(known) && known.length === ROLES.length;
  });
}

async function computedBy(role: string): Promise<number> {
  let tokens = 0;
  for (const [at, own] of ROLES.entries()) {
    if (own !== role || workers[at]?.isAlive !== true) continue;
    const [all, found] = await Promise.all([
      metric(urlOf(at), "prefix_cache_queries_total"),
      metric(urlOf(at), "prefix_cache_hits_total"),
    ]);
    tokens += all - found;
  }
  return tokens;
}

beforeAll(async () => {
  alone = await FleetProcess.start(["worker", "--port", "0", "--speculative", "off", ...MODEL]);
  await startFleet();
});

afterAll(async () => {
  for (const one of [alone, router, ...workers]) await one.end("SIGKILL");
});

describe("prefill and decode pools", () => {
  test("[CL200] [CL201] give the tokens of one worker, and each does its part", async () => {
    const schema = { type: "object", properties: { a: { type: "integer" } }, required: ["a"] };
    const format = { type: "json_schema", json_schema: { name: "a", schema } };
    const bodies = [
      bodyOf(0),
      bodyOf(1),
      bodyOf(2, { n: 2, temperature: 1, seed: 9 }),
      bodyOf(3, { logprobs: 2 }),
      bodyOf(4, { response_format: format, max_tokens: 30, ignore_eos: false }),
      bodyOf(5, { frequency_penalty: 0.5, presence_penalty: 0.5 }),
    ];
    let prompts = 0;
    for (const body of bodies) {
      const expected = await ask(alone.url, body);
      const found = await ask(router.url, body);
      expect(found.choices).toEqual(expected.choices);
      const { completion_tokens: tokens, prompt_tokens_details: details } = expected.usage;
      expect(found.usage).toMatchObject({
        completion_tokens: tokens,
        prompt_tokens_details: details,
      });
      prompts += body.prompt.length;
    }
    expect(await computedBy("decode")).toBeLessThan(16 * 2 * bodies.length);
    expect(await computedBy("prefill")).toBeGreaterThan(prompts - 2 * 16 * bodies.length);
  });

  test("[KV68] [KV69] what requests occupied is told by both sides, and by the router", async () => {
    const body = bodyOf(40, { request_id: "occupied", return_kv_byte_seconds: true });
    const { perigee } = (await ask(router.url, body)).usage;
    expect(perigee?.kv_byte_seconds).toBeGreaterThan(0);
    const past = await json(await fetch(`${router.url}/route/explain?request=occupied`));
    const { decisions } = past as unknown as { readonly decisions: readonly object[] };
    expect(decisions.at(-1)).toEqual({
      ...{ request: "occupied", event: "held", kv_byte_seconds: perigee?.kv_byte_seconds },
      worker: expect.any(String),
    });
    const served = async () => {
      const counts = [0, 1].map((at) => metric(urlOf(at), "peer_request_kv_byte_seconds_sum"));
      return Math.max(...(await Promise.all(counts)));
    };
    await expect.poll(served).toBeGreaterThan(0);
  });

  test("[KV72] usage counts as cached what only a prefill worker had", async () => {
    let seed = 800;
    // Until the router has heard of it, another worker may compute all of a prompt.
    await until("what the prefill worker has is used, and told", async () => {
      const own = bodyOf(++seed);
      await ask(urlOf(0), own);
      await sleep(300);
      const before = await computedBy("prefill");
      const longer = { ...own, prompt: [...own.prompt, ...ids(seed + 5000, 200)] };
      const { usage } = await ask(router.url, longer);
      const computed = (await computedBy("prefill")) - before;
      const { cached_tokens: cached } = usage.prompt_tokens_details;
      return computed > 0 && computed < longer.prompt.length && cached > own.prompt.length - 16;
    });
  });

  test("[CL201] a short end of a prompt is computed where it decodes", async () => {
    const before = await computedBy("prefill");
    const short = { ...bodyOf(50), prompt: ids(50, 40) };
    const expected = await ask(alone.url, short);
    expect((await ask(router.url, short)).choices).toEqual(expected.choices);
    expect(await computedBy("prefill")).toBe(before);
  });

  test("[CL203] clients cannot say where keys and values come from", async () => {
    const perigee = { kv_source: { host: "127.0.0.1", port: 1 } };
    await expect(ask(router.url, bodyOf(0, { perigee }))).rejects.toThrow(/must be left out/);
    // A worker of a fleet may be told so; one without transfers says what it lacks.
    await expect(ask(alone.url, bodyOf(0, { perigee }))).rejects.toThrow(/kvTransfer/);
    const wrong = { kv_source: { host: "", port: 1 } };
    await expect(ask(urlOf(2), bodyOf(0, { perigee: wrong }))).rejects.toThrow(/host/);
  });

  test("[CL202] a source that is not there costs time only", async () => {
    const perigee = { kv_source: { host: "127.0.0.1", port: 1, compute: true } };
    const body = bodyOf(60);
    const expected = await ask(alone.url, body);
    const found = await ask(urlOf(2), { ...body, perigee } as Body);
    expect(found.choices).toEqual(expected.choices);
    expect(found.usage.prompt_tokens_details.cached_tokens).toBe(0);
    const log = () => workers[2]?.log.join("\n") ?? "";
    await expect.poll(log).toMatch(/Cannot fetch keys and values from 127.0.0.1:1/);
  });

  test(
    "[CL202] killed and stopped workers of either pool: every answer is right",
    async () => {
      const bodies = Array.from({ length: REQUESTS }, (_, at) => bodyOf(100 + at));
      const expected: Answer[] = [];
      for (const body of bodies) expected.push(await ask(alone.url, body));
      const sent = bodies.map(async (body, at) => {
        await new Promise((resolve) => setTimeout(resolve, at * 40));
        return await ask(router.url, body);
      });
      await new Promise((resolve) => setTimeout(resolve, 200));
      workers[0]?.signal("SIGKILL");
      await new Promise((resolve) => setTimeout(resolve, 150));
      workers[2]?.signal("SIGKILL");
      await new Promise((resolve) => setTimeout(resolve, 100));
      workers[1]?.signal("SIGSTOP");
      const found = await Promise.all(sent);
      expect(found.map(({ choices }) => choices)).toEqual(expected.map(({ choices }) => choices));
      workers[1]?.signal("SIGCONT");
      for (const at of [1, 3]) await expect.poll(() => heldTokens(urlOf(at)), POLL).toBe(0);
      await expect.poll(openReservations, POLL).toBe(0);
    },
    TEST_MS,
  );

  test("[CL200] the prefill pool answers alone where no other is left", async () => {
    await workers[3]?.end("SIGKILL");
    const body = bodyOf(300);
    const expected = await ask(alone.url, body);
    await expect
      .poll(async () => (await ask(router.url, body).catch(() => null))?.choices, POLL)
      .toEqual(expected.choices);
  });
});

const POLL = { timeout: 30_000, interval: 200 };
