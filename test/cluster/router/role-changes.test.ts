/** Roles of real processes change under load. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { valuesOf } from "../../chaos/chaos-books.ts";
import { FleetProcess } from "../../support/fleet-process.ts";
import { sized } from "../../support/full.ts";
import { json } from "../../support/json.ts";
import { until } from "../../support/until.ts";

const MODEL = ["--device", "cpu", "--dtype", "float32", "--threads", "1", "--log-level", "warn"];
const ROLES = ["prefill", "prefill", "decode", "decode"] as const;
const ROUNDS = sized(3, 30);
const PER_ROUND = 6;
const TEST_MS = sized(90_000, 600_000);
/** An offer that is not read ends within two looks of 30 s. */
const POLL = { timeout: 90_000, interval: 200 };

type Json = Readonly<Record<string, unknown>>;

let alone: FleetProcess;
let workers: FleetProcess[] = [];
let router: FleetProcess;

const urlOf = (at: number): string => workers[at]?.url ?? "";

async function post(url: string, body: unknown): Promise<{ status: number; body: Json }> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: (await response.json()) as Json };
}

function bodyOf(seed: number): Json {
  const length = 100 + ((seed * 37) % 400);
  const prompt = Array.from({ length }, (_, at) => 300 + ((seed * 7919 + at * 104_729) % 3000));
  return {
    ...{ model: "pocket", prompt, max_tokens: 10, ignore_eos: true },
    ...(seed % 2 === 0 ? { temperature: 0 } : { temperature: 1, seed }),
  };
}

async function choicesOf(url: string, seed: number): Promise<unknown> {
  const { status, body } = await post(`${url}/v1/completions`, bodyOf(seed));
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body.choices;
}

async function streamed(url: string, seed: number): Promise<string> {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...bodyOf(seed), stream: true }),
  });
  const text = await response.text();
  expect(text).toContain("data: [DONE]");
  const events = text.split("\n").filter((line) => line.startsWith('data: {"'));
  return events
    .map((line) => (JSON.parse(line.slice(6)) as { choices: { text: string }[] }).choices[0]?.text)
    .join("");
}

async function roleAt(at: number): Promise<Json> {
  const { role, roleEpoch } = await json(await fetch(`${urlOf(at)}/worker_info`));
  return { role, roleEpoch };
}

async function sumOf(name: string, label = ""): Promise<number> {
  const text = await (await fetch(`${router.url}/metrics`)).text();
  const values = [...valuesOf(text, name)].filter(([labels]) => labels.includes(label));
  return values.reduce((sum, [, value]) => sum + value, 0);
}

async function heldTokens(at: number): Promise<unknown> {
  const [load] = (await json(await fetch(`${urlOf(at)}/get_load`))) as unknown as [Json];
  return load.num_tokens;
}

beforeAll(async () => {
  alone = await FleetProcess.start(["worker", "--port", "0", ...MODEL]);
  const words = ROLES.map((role) => ["worker", "--port", "0", "--role", role, ...MODEL]);
  workers = await Promise.all(words.map((each) => FleetProcess.start(each)));
  const list = workers.flatMap(({ url }) => ["--worker", url]);
  router = await FleetProcess.start(["route", "--port", "0", ...list, "--log-level", "info"]);
  await until("all are known", async () => {
    const { workers: known } = await json(await fetch(`${router.url}/server_info`));
    return Array.isArray(known) && known.length === ROLES.length;
  });
});

afterAll(async () => {
  for (const one of [alone, router, ...workers]) await one.end("SIGKILL");
});

describe("roles that change", () => {
  test("[CL212] a request of before is routed again, and its client sees nothing", async () => {
    const expected = [await choicesOf(alone.url, 1), await streamed(alone.url, 2)];
    // At the workers themselves: the router does not know yet, and its requests are refused.
    for (const at of [2, 3]) await post(`${urlOf(at)}/worker_role`, { role: "both" });
    const found = await Promise.all([choicesOf(router.url, 1), streamed(router.url, 2)]);
    expect(found).toEqual(expected);
    expect(await sumOf("worker_requests_total", 'outcome="stale"')).toBeGreaterThan(0);
    expect(await sumOf("retries_total")).toBe(0);
    const known = async () => {
      const { workers: all } = await json(await fetch(`${router.url}/server_info`));
      return (all as unknown as Json[])
        .map(({ role, role_epoch }) => `${role} ${role_epoch}`)
        .sort();
    };
    const now = ["both 1", "both 1", "prefill 0", "prefill 0"];
    await expect.poll(known, POLL).toEqual(now);
    await expect.poll(() => router.log.join("\n")).toMatch(/has the role both now/);
  });

  test(
    "[CL211] [CL214] all answers are right while roles change under load, and nothing is held",
    async () => {
      const seeds = Array.from({ length: ROUNDS * PER_ROUND }, (_, at) => 100 + at);
      const expected: unknown[] = [];
      for (const seed of seeds) expected.push(await choicesOf(alone.url, seed));
      const sent: Promise<unknown>[] = [];
      const given: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        for (const seed of seeds.slice(round * PER_ROUND, (round + 1) * PER_ROUND)) {
          sent.push(choicesOf(router.url, seed));
        }
        await new Promise((resolve) => setTimeout(resolve, 60));
        // The two pools swap a worker, and swap it back; one that is not told by the router.
        const [a, b] = round % 2 === 0 ? ["decode", "prefill"] : ["prefill", "decode"];
        const roles = { [urlOf(0)]: a, [urlOf(2)]: b };
        given.push((await post(`${router.url}/route/roles`, { roles })).status);
        await post(`${urlOf(3)}/worker_role`, { role: round % 2 === 0 ? "decode" : "both" });
      }
      expect(await Promise.all(sent)).toEqual(expected);
      expect(given).toEqual(given.map(() => 200));
      for (const at of workers.keys()) await expect.poll(() => heldTokens(at), POLL).toBe(0);
      await expect.poll(() => sumOf("open_reservations"), POLL).toBe(0);
    },
    TEST_MS,
  );

  test("[CL215] the last worker that answers stays, and what is wrong is told with its remedy", async () => {
    const url = `${router.url}/route/roles`;
    const all = Object.fromEntries(workers.map((worker) => [worker.url, "prefill"]));
    const { status, body } = await post(url, { roles: { ...all, nobody: "both" } });
    expect(status).toBe(404);
    const errors = body.errors as Record<string, Json>;
    expect(errors.nobody).toMatchObject({ code: "worker_not_found" });
    const last = Object.entries(errors).filter(([id]) => id !== "nobody");
    expect(last).toHaveLength(1);
    expect(last[0]?.[1]).toMatchObject({ code: "last_worker" });
    expect(Object.keys(body.roles as Json)).toHaveLength(3);
    expect(await choicesOf(router.url, 900)).toEqual(await choicesOf(alone.url, 900));
    const hostile = [
      null,
      [],
      {},
      { roles: null },
      { roles: [] },
      { roles: {} },
      { roles: { a: 1 } },
      { roles: { a: "kvv" } },
      { roles: { a: "both" }, more: 1 },
      { roles: { "": null } },
      { roles: Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`w${at}`, "both"])) },
      { roles: { ["x".repeat(100_000)]: "decode " } },
      { __proto__: null, roles: "decode" },
    ];
    for (const each of hostile) {
      const answer = await post(url, each);
      expect([answer.status, JSON.stringify(each)?.slice(0, 80)]).toEqual([400, expect.anything()]);
      expect(JSON.stringify(answer.body).length).toBeLessThan(2000);
    }
    const back = { [urlOf(0)]: "prefill", [urlOf(2)]: "decode", [urlOf(3)]: "decode" };
    const given = await post(url, { roles: back });
    expect([given.status, given.body.errors]).toEqual([200, {}]);
    expect(await roleAt(2)).toMatchObject({ role: "decode" });
  });

  test("[CL212] clients cannot say by which role they were routed", async () => {
    const body = { ...bodyOf(5), perigee: { role_epoch: 0 } };
    const answer = await post(`${router.url}/v1/completions`, body);
    expect([answer.status, JSON.stringify(answer.body)]).toEqual([
      400,
      expect.stringContaining("must be left out"),
    ]);
  });
});
