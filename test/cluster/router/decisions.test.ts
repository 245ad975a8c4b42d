/** Decisions are explained afterwards: by the id of their request, and in a log. */
import { mkdir, mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { DecisionLog } from "../../../src/cluster/router/decision-log.ts";
import { json } from "../../support/json.ts";
import { closeRouters, routeToys } from "../../support/router-fleet.ts";
import { closeToyServers } from "../../support/toy-server.ts";

closeRouters();
closeToyServers();

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "decisions-"));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return path;
}

function chat(id: string) {
  const messages = [{ role: "user" as const, content: "hi" }];
  return { model: "toy", messages, max_tokens: 4, request_id: id };
}

test("[CL209] a past decision is explained by its request's id, and a prompt by its terms", async () => {
  const { post, get } = await routeToys([{ defaultName: "toy" }, { defaultName: "toy" }]);
  expect((await post("/v1/chat/completions", chat("asked-1"))).status).toBe(200);
  const past = await json(await get("/route/explain?request=asked-1"));
  expect(past).toMatchObject({
    request: "asked-1",
    decisions: [{ request: "asked-1", decision: "accepted", by: "policy", priority: "normal" }],
  });
  const terms = await json(await post("/route/explain", { ...chat("x"), priority: "batch" }));
  expect(terms).toMatchObject({
    conductor: { decision: { priority: "batch" }, prefill: { length: 2 }, decode: { length: 2 } },
  });
  // Explanations are no decisions.
  expect((await get("/route/explain?request=x")).status).toBe(404);
});

test.each(["", "x".repeat(5000), "a%00b", "..%2F..", "__proto__", "a&request=b"])(
  "[CL209] %j is no request that was decided",
  async (id) => {
    const { get } = await routeToys([{ defaultName: "toy" }]);
    const answer = await get(`/route/explain?request=${id}`);
    expect(answer.status).toBe(404);
    expect((await answer.text()).length).toBeLessThan(1000);
  },
);

test("[CL210] decisions are lines of a file, which may be renamed at any time", async () => {
  const decisionLog = join(await folder(), "decisions.jsonl");
  const { post } = await routeToys([{ defaultName: "toy" }], { decisionLog });
  const lines = async (file: string) =>
    (await readFile(file, "utf8").catch(() => "")).trim().split("\n").filter(Boolean);
  await post("/v1/chat/completions", chat("a"));
  await expect.poll(() => lines(decisionLog)).toHaveLength(1);
  await rename(decisionLog, `${decisionLog}.1`);
  await post("/v1/chat/completions", chat("b"));
  await expect.poll(() => lines(decisionLog)).toHaveLength(1);
  const [line = "{}"] = await lines(decisionLog);
  expect(JSON.parse(line)).toMatchObject({ request: "b", decision: "accepted" });
  expect(line).not.toContain("hi");
});

test("[CL210] a log that cannot be written is told before the first decision, once", async () => {
  const warnings: string[] = [];
  const file = join(await folder(), "missing", "decisions.jsonl");
  const log = new DecisionLog(file, (text) => warnings.push(text));
  await log.close();
  const told = [expect.stringMatching(/^decisions are not logged: .*missing.*ENOENT/)];
  expect(warnings).toEqual(told);
  log.add("{}");
  await log.close();
  expect(warnings).toEqual(told);
  expect(log.dropped).toBe(1);
});

test("[CL210] a log that fails again and again is told of once, and once that it is written", async () => {
  const warnings: string[] = [];
  let now = 0;
  const parent = join(await folder(), "there");
  const file = join(parent, "decisions.jsonl");
  const log = new DecisionLog(file, (text) => warnings.push(text), { nowMs: () => now });
  for (let round = 0; round < 6; round++) {
    now += 1000;
    if (round % 2 === 0) await rm(parent, { recursive: true, force: true });
    else await mkdir(parent);
    log.add("{}");
    await log.close();
  }
  expect(warnings).toHaveLength(1);
  now += 30_000;
  log.add("{}");
  await log.close();
  expect(warnings).toEqual([
    expect.stringMatching(/^decisions are not logged: /),
    expect.stringMatching(/^decisions are logged again: .* \(\d were not\)$/),
  ]);
});

test("[CL210] a log that cannot be written costs no request", async () => {
  const decisionLog = join(await folder(), "missing", "decisions.jsonl");
  const { post, get } = await routeToys([{ defaultName: "toy" }], { decisionLog });
  for (const id of ["a", "b"]) {
    expect((await post("/v1/chat/completions", chat(id))).status).toBe(200);
  }
  expect((await get("/route/explain?request=b")).status).toBe(200);
});
