import { describe, expect, test } from "vitest";
import type { RunningRouter } from "#cluster";
import { clientsOf, closeRouters, routeTo, routeToys } from "../../support/router-fleet.ts";
import { closeStrangeWorkers, strangeWorker } from "../../support/strange-worker.ts";
import { closeToyServers } from "../../support/toy-server.ts";

closeRouters();
closeToyServers();
closeStrangeWorkers();

const ANSWER = '{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}';

/** A worker whose answers wait for the test. */
async function heldWorker() {
  const names: string[] = [];
  const held: (() => void)[] = [];
  let open = 0;
  const url = await strangeWorker((request, response) => {
    let text = "";
    request.on("data", (part: Buffer) => {
      text += part.toString();
    });
    request.on("end", () => {
      names.push(String(JSON.parse(text).user));
      open++;
      response.once("close", () => open--);
      held.push(() => response.setHeader("content-type", "application/json").end(ANSWER));
    });
  });
  /** Answers the oldest. */
  const answer = async () => {
    await expect.poll(() => held.length).toBeGreaterThan(0);
    held.shift()?.();
  };
  return { url, names, answer, open: () => open, held };
}

function chat(name: string, priority?: number) {
  const messages = [{ role: "user" as const, content: "hi" }];
  return { model: "toy", messages, user: name, ...(priority === undefined ? {} : { priority }) };
}

async function waiting(router: RunningRouter, count: number): Promise<void> {
  await expect.poll(() => router.waiting).toBe(count);
}

describe("who waits", () => {
  test("[CL140] strict priorities, equal ones as they came; none overtakes", async () => {
    const worker = await heldWorker();
    const router = await routeTo([worker.url], { workerRequestsMax: 1 });
    const { post } = clientsOf(router);
    const answers = [post("/v1/chat/completions", chat("runs"))];
    await expect.poll(() => worker.names).toEqual(["runs"]);
    const comers = [["late", 5], ["usual"], ["first", -3], ["usual too", 0], ["odd", 1.5]] as const;
    for (const [at, [name, priority]] of comers.entries()) {
      answers.push(post("/v1/chat/completions", chat(name, priority)));
      await waiting(router, at + 1);
    }
    expect(router.openReservations).toBe(1);
    for (const _ of answers) await worker.answer();
    for (const { status } of await Promise.all(answers)) expect(status).toBe(200);
    expect(worker.names).toEqual(["runs", "first", "usual", "usual too", "odd", "late"]);
    expect([router.waiting, router.openReservations, router.inWork]).toEqual([0, 0, 0]);
  });

  test("[CL140] an API key that floods the router does not keep another one waiting", async () => {
    const worker = await heldWorker();
    const options = { workerRequestsMax: 1, apiKey: ["flood", "usual"] };
    const router = await routeTo([worker.url], options);
    const { post } = clientsOf(router);
    const send = (key: string, count: number) =>
      Array.from({ length: count }, (_, at) =>
        post("/v1/chat/completions", chat(`${key} ${at}`), {
          headers: { authorization: `Bearer ${key}` },
        }),
      );
    const answers = send("flood", 60);
    await waiting(router, 59);
    answers.push(...send("usual", 12));
    await waiting(router, 71);
    for (let at = 0; at < 72; at++) await worker.answer();
    for (const { status } of await Promise.all(answers)) expect(status).toBe(200);
    const lastUsual = worker.names.findLastIndex((name) => name.startsWith("usual"));
    // A turn is some requests long: 12 of one key are over after about 12 of the other.
    expect(lastUsual).toBeLessThan(48);
    expect(router.openReservations).toBe(0);
  });

  test("[CL140] those that wait for another model's worker delay no others", async () => {
    const fleet = await routeToys(
      [{ defaultName: "slow", msPerToken: 40, reply: () => "y".repeat(30) }, { defaultName: "b" }],
      { workerRequestsMax: 1 },
    );
    const slow = [1, 2, 3].map((at) =>
      fleet.post("/v1/chat/completions", { ...chat(`${at}`), model: "slow" }),
    );
    await waiting(fleet.router, 2);
    const quick = await fleet.post("/v1/chat/completions", { ...chat("x"), model: "b" });
    expect(quick.status).toBe(200);
    expect(fleet.router.waiting).toBe(2);
    for (const answer of slow) expect((await answer).status).toBe(200);
  });

  test("[CL140] who waits goes to the worker that has room first, and is explained so", async () => {
    const [a, b] = [await heldWorker(), await heldWorker()];
    const router = await routeTo([a.url, b.url], { workerRequestsMax: 1 });
    const { post, get } = clientsOf(router);
    const answers = ["1", "2", "3"].map((name) => post("/v1/chat/completions", chat(name)));
    await waiting(router, 1);
    const explained = await (await get("/route/explain?prompt=x&model=toy")).json();
    expect(explained).toMatchObject({
      would_wait: true,
      waiting: 1,
      workers: [{ full: "requests" }, { full: "requests" }],
    });
    await b.answer();
    await expect.poll(() => b.names.length).toBe(2);
    expect(a.names.length).toBe(1);
    await Promise.all([a.answer(), b.answer(), ...answers]);
    const metrics = await (await get("/metrics")).text();
    expect(metrics).toContain('perigee_router_queue_wait_seconds_count{priority="normal"} 1');
    expect(metrics).toContain("perigee_router_queue_requests 0");
  });
});

describe("who is full", () => {
  test("[CL141] a worker that says so (429) gets the request when another has ended", async () => {
    const fleet = await routeToys([
      { runningMax: 2, msPerToken: 5, reply: () => "z".repeat(20) },
      { runningMax: 2, msPerToken: 5, reply: () => "z".repeat(20) },
    ]);
    const answers = Array.from({ length: 24 }, (_, at) =>
      fleet.post("/v1/chat/completions", { ...chat(`${at}`), stream: at % 2 === 0 }),
    );
    for (const answer of answers) {
      const { status } = await answer;
      expect(status).toBe(200);
      await (await answer).text();
    }
    await expect.poll(() => fleet.router.openReservations).toBe(0);
    expect(fleet.router.waiting).toBe(0);
  });

  test("[CL141] a first token that is late makes a worker full, one that has come does not", async () => {
    const event = 'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n';
    const responses: { write: (text: string) => void; end: (text: string) => void }[] = [];
    const url = await strangeWorker((_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      responses.push(response);
    });
    const router = await routeTo([url], { workerWaitMs: 150 });
    const { post } = clientsOf(router);
    const send = () => post("/v1/chat/completions", { ...chat("s"), stream: true });
    const first = send();
    await expect.poll(() => responses.length).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 400));
    const second = send();
    await waiting(router, 1);
    responses[0]?.write(event);
    await expect.poll(() => responses.length).toBe(2);
    expect(router.waiting).toBe(0);
    for (const response of responses) response.end(`${event}data: [DONE]\n\n`);
    for (const answer of [first, second]) await (await answer).text();
    expect(router.openReservations).toBe(0);
  });
});

describe("who leaves", () => {
  test("[CL142] a client that goes away leaves the queue, and no worker is told of it", async () => {
    const worker = await heldWorker();
    const router = await routeTo([worker.url], { workerRequestsMax: 1 });
    const { post } = clientsOf(router);
    const runs = post("/v1/chat/completions", chat("runs"));
    await expect.poll(() => worker.names.length).toBe(1);
    const controller = new AbortController();
    const { signal } = controller;
    const leaves = post("/v1/chat/completions", chat("leaves"), { signal });
    await waiting(router, 1);
    controller.abort();
    await expect(leaves).rejects.toThrow();
    await waiting(router, 0);
    await expect.poll(() => router.inWork).toBe(1);
    await worker.answer();
    expect((await runs).status).toBe(200);
    expect([worker.names, router.openReservations]).toEqual([["runs"], 0]);
  });

  test("[CL142] after its time it gets 503 with Retry-After; with the router's end at once", async () => {
    const worker = await heldWorker();
    const options = { workerRequestsMax: 1, queueTimeoutMs: 200, shutdownTimeoutMs: 20_000 };
    const router = await routeTo([worker.url], options);
    const { post } = clientsOf(router);
    const runs = post("/v1/chat/completions", chat("runs"));
    await expect.poll(() => worker.names.length).toBe(1);
    const late = await post("/v1/chat/completions", chat("late"));
    expect(late.status).toBe(503);
    expect(Number(late.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    expect(await late.json()).toMatchObject({ error: { code: "overloaded" } });

    const patient = await routeTo([worker.url], { ...options, queueTimeoutMs: 60_000 });
    const others = ["1", "2"].map((name) =>
      clientsOf(patient).post("/v1/chat/completions", chat(name)),
    );
    await waiting(patient, 1);
    await expect.poll(() => worker.names.length).toBe(2);
    const closed = patient.close();
    const statuses = others.map(async (answer) => (await answer).status);
    expect(await Promise.race(statuses)).toBe(503);
    await Promise.all([worker.answer(), worker.answer()]);
    expect((await Promise.all(statuses)).sort()).toEqual([200, 503]);
    await Promise.all([closed, runs]);
    expect([router.openReservations, patient.openReservations]).toEqual([0, 0]);
  });

  test("[CL142] a full queue refuses: 429 where its own key has too much there, else 503", async () => {
    const worker = await heldWorker();
    const router = await routeTo([worker.url], {
      ...{ workerRequestsMax: 1, queueRequestsMax: 3, queueKeyRequestsMax: 2 },
      apiKey: ["a", "b"],
    });
    const { post, get } = clientsOf(router);
    const send = (key: string, priority?: number) =>
      post("/v1/chat/completions", chat(key, priority), {
        headers: { authorization: `Bearer ${key}` },
      });
    const served = [send("a"), send("a"), send("a")];
    await waiting(router, 2);
    const refused = await send("a", 9);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
    served.push(send("b"));
    await waiting(router, 3);
    const full = await send("b");
    expect([full.status, full.headers.get("retry-after")]).toEqual([503, "1"]);
    const headers = { authorization: "Bearer a" };
    const metrics = await (await get("/metrics", { headers })).text();
    expect(metrics).toContain('queue_refused_total{priority="low",reason="key-full"} 1');
    expect(metrics).toContain('queue_refused_total{priority="normal",reason="full"} 1');
    for (const _ of served) await worker.answer();
    for (const answer of served) expect((await answer).status).toBe(200);
    expect(router.openReservations).toBe(0);
  });
});

describe("hostile requests", () => {
  const COUNT = process.env.PERIGEE_FULL === "1" ? 10_000 : 300;

  test(`[CL143] ${COUNT} requests of absurd priorities are all answered`, async () => {
    const url = await strangeWorker((request, response) => {
      request.resume().on("end", () => {
        response.setHeader("content-type", "application/json").end(ANSWER);
      });
    });
    const limits = { queueRequestsMax: 20_000, queueKeyRequestsMax: 20_000 };
    const router = await routeTo([url], { workerRequestsMax: 2, ...limits });
    const { post } = clientsOf(router);
    const priorities = ["1e999", "-1e308", "0.1", "null", '"7"', "[]", "-9007199254740991", "{}"];
    const statuses = new Map<number, number>();
    const send = async (at: number) => {
      const priority = priorities[at % 16] ?? `${(at * 7919) % 100_003}`;
      const body = `{"model":"toy","prompt":"x","priority":${priority}}`;
      const headers = { "content-type": "application/json" };
      const init = { method: "POST", body, headers };
      const { status } = await fetch(`${router.url}/v1/completions`, init);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    };
    for (let at = 0; at < COUNT; at += 250) {
      await Promise.all(Array.from({ length: Math.min(250, COUNT - at) }, (_, i) => send(at + i)));
    }
    expect([...statuses]).toEqual([[200, COUNT]]);
    expect([router.waiting, router.openReservations, router.inWork]).toEqual([0, 0, 0]);
    expect((await post("/v1/completions", { model: "toy", prompt: "x" })).status).toBe(200);
  });
});
