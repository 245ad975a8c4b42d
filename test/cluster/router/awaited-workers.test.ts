/** No worker can be asked for a moment: requests wait for those that come back. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { FleetProcess } from "../../support/fleet-process.ts";
import { full } from "../../support/full.ts";
import { NO_REDIS, TestRedis } from "../../support/redis-server.ts";
import { clientsOf, closeRouters, routeTo } from "../../support/router-fleet.ts";
import { closeStrangeWorkers, strangeWorker } from "../../support/strange-worker.ts";

closeRouters();
closeStrangeWorkers();

const PATH = "/v1/chat/completions";
const chat = { model: "toy", messages: [{ role: "user", content: "hi" }] };
const OPEN_MS = 300;
const OPTIONS = { breakerFailures: 1, breakerOpenMs: OPEN_MS, policy: "round-robin" } as const;

const right = (response: ServerResponse) =>
  void response.setHeader("content-type", "application/json").end('{"choices":[]}');

/** A worker that cuts connections while it is ill. */
async function sickly(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const state = { isIll: true, asked: 0 };
  const url = await strangeWorker((request, response) => {
    state.asked++;
    if (state.isIll) request.socket.destroy();
    else answer(request, response);
  });
  return { url, state };
}

test("[CL154] requests wait for a worker that is left alone, and are served when it is back", async () => {
  const { url, state } = await sickly((_, response) => right(response));
  const router = await routeTo([url], OPTIONS);
  const { post } = clientsOf(router);
  expect((await post(PATH, chat)).status).toBe(502);
  state.isIll = false;
  const answers = Array.from({ length: 5 }, () => post(PATH, chat));
  await expect.poll(() => router.waiting).toBe(5);
  expect(state.asked).toBe(1);
  for (const answer of answers) expect((await answer).status).toBe(200);
  expect([router.waiting, router.openReservations]).toEqual([0, 0]);
});

test("[CL154] who waits for a worker that stays ill is told so in time", async () => {
  const { url, state } = await sickly((_, response) => right(response));
  const router = await routeTo([url], OPTIONS);
  const { post } = clientsOf(router);
  await post(PATH, chat);
  const beganMs = performance.now();
  const answers = await Promise.all(Array.from({ length: 5 }, () => post(PATH, chat)));
  const statuses = answers.map(({ status }) => status);
  expect(performance.now() - beganMs).toBeGreaterThan(OPEN_MS / 2);
  // Those who tried it are told of its failure, others that it has failed.
  expect(statuses.every((status) => status === 502 || status === 503)).toBe(true);
  expect(statuses).toContain(503);
  expect(state.asked).toBeLessThan(5);
  const refused = answers[statuses.indexOf(503)];
  expect(await refused?.text()).toContain("all that serve the model have failed just now");
  expect([router.waiting, router.openReservations]).toEqual([0, 0]);
});

test("[CL154] a request that one worker failed waits for another that is left alone", async () => {
  const one = await sickly((_, response) => right(response));
  const two = await sickly((_, response) => right(response));
  const { post } = clientsOf(await routeTo([one.url, two.url], OPTIONS));
  // Both fail, and are left alone; only one of them comes back.
  expect((await post(PATH, chat)).status).toBe(502);
  two.state.isIll = false;
  expect((await post(PATH, chat)).status).toBe(200);
});

test("[CL83] the first token of the request that tries a worker lets others come", async () => {
  const ends: (() => void)[] = [];
  const { url, state } = await sickly((_, response) => {
    response.setHeader("content-type", "text/event-stream");
    response.write('data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n');
    ends.push(() => response.end("data: [DONE]\n\n"));
  });
  const { post } = clientsOf(await routeTo([url], OPTIONS));
  await post(PATH, { ...chat, stream: true });
  state.isIll = false;
  const first = post(PATH, { ...chat, stream: true });
  await expect.poll(() => ends.length).toBe(1);
  const second = post(PATH, { ...chat, stream: true });
  await expect.poll(() => ends.length).toBe(2);
  for (const end of ends) end();
  for (const answer of [first, second]) expect(await (await answer).text()).toContain("[DONE]");
});

test.runIf(NO_REDIS === null)(
  "[CL154] requests wait at a router that has just begun to learn of its workers",
  async () => {
    const redis = await TestRedis.start();
    const router = await routeTo([], { redis: redis.url });
    const { post } = clientsOf(router);
    const answer = post("/v1/completions", { model: "mock", prompt: "hi", max_tokens: 2 });
    await expect.poll(() => router.waiting).toBe(1);
    const words = ["worker", "--mock", "--served-model-name", "mock", "--port", "0"];
    const worker = await FleetProcess.start([...words, "--redis", redis.url]);
    try {
      expect((await answer).status).toBe(200);
    } finally {
      await worker.end("SIGKILL");
      await redis.close();
    }
  },
  30_000,
);

/** Longer than a router is thought to begin where Redis answers at once. */
const AWAY_MS = 11_000;

test.runIf(NO_REDIS === null && full)(
  "[CL191] requests wait at a router that Redis has not answered, however long it has run",
  async () => {
    const redis = await TestRedis.start();
    const words = ["worker", "--mock", "--served-model-name", "mock", "--port", "0"];
    const worker = await FleetProcess.start([...words, "--redis", redis.url]);
    try {
      await redis.kill();
      const { post } = clientsOf(await routeTo([], { redis: redis.url }));
      const ask = () => post("/v1/completions", { model: "mock", prompt: "hi", max_tokens: 2 });
      await sleep(AWAY_MS - 2000);
      const early = ask();
      await sleep(2000);
      const late = ask();
      await redis.start();
      expect([(await early).status, (await late).status]).toEqual([200, 200]);
    } finally {
      await worker.end("SIGKILL");
      await redis.close();
    }
  },
  30_000,
);
