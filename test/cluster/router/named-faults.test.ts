/** Faults that are known of other fleets with pools, with real processes and the bundled model. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, listen } from "../../chaos/chaos-request.ts";
import { FleetProcess } from "../../support/fleet-process.ts";
import { sized } from "../../support/full.ts";
import { json } from "../../support/json.ts";
import { freePort } from "../../support/redis-server.ts";
import { until } from "../../support/until.ts";

const MODEL = ["--device", "cpu", "--dtype", "float32", "--threads", "1", "--log-level", "warn"];
const STAY = { deadlineMs: 60_000, leaveAfterMs: null };
const POLL = { timeout: 30_000, interval: 100 };
const RESTARTS = sized(2, 10);
/** Requests at a restart. */
const WAVE = 12;
/** Of prompts: more than are computed where they decode. */
const PROMPT_TOKENS = 300;

type Fields = Readonly<Record<string, unknown>>;

/** Ids of a made-up text: no two seeds begin alike. */
function ids(seed: number, length = PROMPT_TOKENS): number[] {
  return Array.from({ length }, (_, place) => 300 + ((seed * 7919 + place * 104_729) % 3000));
}

function bodyOf(prompt: unknown, fields: Fields = {}): Fields {
  return { model: "pocket", prompt, max_tokens: 12, temperature: 0, ignore_eos: true, ...fields };
}

async function ask(url: string, body: Fields): Promise<Answer> {
  const heard = await listen(url, { path: "/v1/completions", body }, STAY);
  if (heard.kind !== "answered") throw new Error(JSON.stringify(heard));
  return heard.answer;
}

let alone: FleetProcess;
let prefill: FleetProcess;
let decode: FleetProcess;
let router: FleetProcess;
let prefillWords: readonly string[];

interface Stats {
  readonly heldBlocks: number;
  readonly steps: number;
  readonly cache: { readonly peers: { readonly sent: number } };
}

async function statsOf(one: FleetProcess): Promise<Stats> {
  const { stats } = await json(fetch(`${one.url}/server_info`));
  return stats as unknown as Stats;
}

/** Nothing is held on any level, and both workers live. */
async function atRest(): Promise<void> {
  for (const one of [prefill, decode]) {
    expect(one.isAlive).toBe(true);
    await expect.poll(async () => (await statsOf(one)).heldBlocks, POLL).toBe(0);
  }
}

beforeAll(async () => {
  const worker = ["worker", ...MODEL];
  const [port, transferPort] = [await freePort(), await freePort()];
  prefillWords = [
    ...[...worker, "--role", "prefill", "--port", `${port}`],
    ...["--kv-transfer-port", `${transferPort}`],
  ];
  [alone, prefill, decode] = await Promise.all([
    FleetProcess.start([...worker, "--port", "0", "--speculative", "off"]),
    FleetProcess.start(prefillWords),
    FleetProcess.start([...worker, "--port", "0", "--role", "decode"]),
  ]);
  const list = [prefill, decode].flatMap(({ url }) => ["--worker", url]);
  router = await FleetProcess.start(["route", "--port", "0", ...list, "--log-level", "warn"]);
  await until("both are known", async () => {
    const { workers } = await json(fetch(`${router.url}/server_info`));
    return Array.isArray(workers) && workers.length === 2;
  });
}, 120_000);

afterAll(async () => {
  for (const one of [alone, router, prefill, decode]) await one.end("SIGKILL");
});

describe("several prompts in one completion", () => {
  test.for<[string, Fields]>([
    ["whole", {}],
    ["streamed", { stream: true, stream_options: { include_usage: true } }],
    ["two choices of each, with log-probabilities", { n: 2, temperature: 1, seed: 3, logprobs: 2 }],
  ])("[CL241] end no worker, and each is answered as alone: %s", async ([name, fields]) => {
    const seed = 10 * name.length;
    const prompts = [ids(seed), ids(seed + 1, 20), ids(seed + 2), ids(seed), ids(seed + 3, 150)];
    const body = bodyOf(prompts, fields);
    expect(await ask(router.url, body)).toEqual(await ask(alone.url, body));
    await atRest();
  });
});

describe("keys that a caller supplies", () => {
  const keys = { prompt_cache_key: "one", user: "one", cache_salt: "one" };

  test("[CL242] name no blocks: prompts with equal keys get their own tokens", async () => {
    for (const seed of [500, 501]) {
      const [body, plain] = [bodyOf(ids(seed), keys), bodyOf(ids(seed))];
      expect(await ask(router.url, body)).toEqual(await ask(alone.url, plain));
    }
    await atRest();
  });

  test.for<[string, Fields]>([
    ["kv_transfer_params", { kv_transfer_params: { remote_block_ids: [0, 1], remote_port: 1 } }],
    ["a source", { perigee: { kv_source: { host: "127.0.0.1", port: 1, compute: true } } }],
  ])("[CL242] are refused where they name a transfer: %s", async ([, fields]) => {
    const body = bodyOf(ids(510), fields);
    const heard = await listen(router.url, { path: "/v1/completions", body }, STAY);
    expect(heard).toMatchObject({ kind: "refused", status: 400 });
  });
});

test("[CL243] a prefill worker that restarts under load ends no decode worker", async () => {
  const bodies = Array.from({ length: WAVE * RESTARTS }, (_, at) => bodyOf(ids(600 + at)));
  const expected: Answer[] = [];
  for (const body of bodies) expected.push(await ask(alone.url, body));
  for (let from = 0; from < bodies.length; from += WAVE) {
    await prefillGives();
    const before = (await statsOf(prefill)).steps;
    const sent = bodies.slice(from, from + WAVE).map((body) => ask(router.url, body));
    // Blocks are on their way.
    await expect
      .poll(async () => (await statsOf(prefill)).steps, { ...POLL, interval: 5 })
      .toBeGreaterThan(before);
    await prefill.end("SIGKILL");
    const restarted = FleetProcess.start(prefillWords);
    expect(await Promise.all(sent)).toEqual(expected.slice(from, from + WAVE));
    prefill = await restarted;
  }
  await prefillGives();
  await atRest();
}, 240_000);

let fresh = 900;

/** Waits until the router has found it again, and its blocks come to the decode worker. */
async function prefillGives(): Promise<void> {
  await expect
    .poll(async () => {
      const body = bodyOf(ids(fresh++));
      expect(await ask(router.url, body)).toEqual(await ask(alone.url, body));
      return (await statsOf(prefill)).cache.peers.sent;
    }, POLL)
    .toBeGreaterThan(0);
}
