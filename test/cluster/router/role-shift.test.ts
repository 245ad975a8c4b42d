/**
 * The conductor gives a real process another role when the load shifts to long prompts. That takes
 * 20 s of all processors: long runs alone. Short ones have the decision (role-balancer.test.ts) and
 * processes that change (role-changes.test.ts).
 */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { valuesOf } from "../../chaos/chaos-books.ts";
import { FleetProcess } from "../../support/fleet-process.ts";
import { full } from "../../support/full.ts";
import { json } from "../../support/json.ts";
import { until } from "../../support/until.ts";

const MODEL = ["--device", "cpu", "--dtype", "float32", "--threads", "1", "--log-level", "warn"];
const ROLES = ["prefill", "decode", "decode"] as const;
/** Which of them keeps its role. */
const PINNED = 1;
const AT_ONCE = 8;
const TEST_MS = 400_000;

let alone: FleetProcess;
let workers: FleetProcess[] = [];
let router: FleetProcess;
let folder = "";

/** Short prompts come first, then long ones. */
const SHORT = 40;

function bodyOf(seed: number) {
  const length = (seed < SHORT ? 30 : 160) + ((seed * 37) % (seed < SHORT ? 30 : 80));
  const prompt = Array.from({ length }, (_, at) => 300 + ((seed * 7919 + at * 104_729) % 3000));
  const max_tokens = seed < SHORT ? 20 : 3;
  return { model: "pocket", prompt, max_tokens, ignore_eos: true, temperature: 0, stream: true };
}

/** As a stream: of answers in one piece no first token is seen. */
async function choicesOf(url: string, seed: number): Promise<unknown> {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(bodyOf(seed)),
  });
  const text = await response.text();
  expect(text).toContain("data: [DONE]");
  const events = text.split("\n").filter((line) => line.startsWith('data: {"'));
  return events
    .map((line) => (JSON.parse(line.slice(6)) as { choices: { text: string }[] }).choices[0]?.text)
    .join("");
}

async function rolesOf(): Promise<unknown[]> {
  const told = await Promise.all(workers.map(({ url }) => fetch(`${url}/worker_info`)));
  return await Promise.all(told.map(async (one) => (await json(one)).role ?? "both"));
}

async function metric(name: string): Promise<number> {
  const text = await (await fetch(`${router.url}/metrics`)).text();
  return [...valuesOf(text, name).values()].reduce((sum, value) => sum + value, 0);
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "role-shift-"));
  alone = await FleetProcess.start(["worker", "--port", "0", ...MODEL]);
  workers = await Promise.all(
    ROLES.map((role, at) =>
      FleetProcess.start([
        ...["worker", "--port", "0", "--role", role, ...MODEL],
        ...(at === PINNED ? ["--role-pinned"] : []),
      ]),
    ),
  );
  router = await FleetProcess.start([
    ...["route", "--port", "0", ...workers.flatMap(({ url }) => ["--worker", url])],
    ...["--role-changes", "auto", "--role-change-after-ms", "1000"],
    ...["--role-change-pause-ms", "2000", "--decision-log", join(folder, "decisions.jsonl")],
  ]);
  await until("all are known", async () => {
    const { workers: known } = await json(await fetch(`${router.url}/server_info`));
    return Array.isArray(known) && known.length === ROLES.length;
  });
}, 240_000);

afterAll(async () => {
  for (const one of [alone, router, ...workers]) await one.end("SIGKILL");
  await rm(folder, { recursive: true, force: true });
});

test.runIf(full)(
  "[CL245] [CL247] a decode worker computes prompts when these pile up; every answer is right",
  {
    timeout: TEST_MS,
  },
  async () => {
    let isOver = false;
    let asked = 0;
    const answers = new Map<number, unknown>();
    const clients = Array.from({ length: AT_ONCE }, async () => {
      while (!isOver) {
        // Another text each time: what a cache has takes no time to compute.
        const seed = asked++;
        answers.set(seed, await choicesOf(router.url, seed));
      }
    });
    try {
      const changes = () => metric("role_changes_total");
      await expect.poll(changes, { timeout: 240_000 }).toBeGreaterThan(0);
    } finally {
      isOver = true;
    }
    await Promise.all(clients);
    expect(await rolesOf()).toEqual(["prefill", "decode", "prefill"]);
    expect(await metric("retries_total")).toBe(0);
    const shown = await json(await fetch(`${router.url}/route/roles`));
    expect(shown).toMatchObject({ role_changes: "auto", decides: true });
    expect(shown.changes).toMatchObject([{ event: "role-change", role: "prefill" }]);
    const lines = (await readFile(join(folder, "decisions.jsonl"), "utf8")).split("\n");
    const line = lines.find((one) => one.includes("role-change"));
    expect(JSON.parse(line ?? "{}")).toMatchObject({
      ...{ from: "decode", role: "prefill", reason: "prefill-overloaded", outcome: "changed" },
    });
    for (let seed = 0; seed < 6; seed++) {
      const found = await choicesOf(router.url, 1000 + seed);
      expect(found).toEqual(await choicesOf(alone.url, 1000 + seed));
    }
    for (const [seed, found] of answers) expect(found).toEqual(await choicesOf(alone.url, seed));
    await expect.poll(() => metric("open_reservations")).toBe(0);
  },
);
