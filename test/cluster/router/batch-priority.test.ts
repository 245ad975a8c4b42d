/** Work that fills what is free: it waits at the router while it would cost others a deadline. */
import { describe, expect, test } from "vitest";
import { clientsOf, closeRouters, routeTo } from "../../support/router-fleet.ts";
import { closeStrangeWorkers, strangeWorker } from "../../support/strange-worker.ts";

closeRouters();
closeStrangeWorkers();

interface Sent {
  readonly user: string;
  readonly body: Readonly<Record<string, unknown>>;
}

/** A worker of another engine: streams 20 tokens, `gapMs` apart, the first one after `firstMs`. */
async function streamingWorker({ firstMs = 60, gapMs = 5 } = {}) {
  const seen: Sent[] = [];
  const ended: string[] = [];
  const url = await strangeWorker((request, response) => {
    let text = "";
    request.on("data", (part: Buffer) => {
      text += part.toString();
    });
    request.on("end", () => {
      const body = JSON.parse(text);
      seen.push({ user: String(body.user), body });
      const chunk = `data: ${JSON.stringify({ choices: [{ index: 0, text: "a" }] })}\n\n`;
      response.setHeader("content-type", "text/event-stream");
      response.flushHeaders();
      let left = 20;
      const next = () => {
        if (left-- > 0) {
          response.write(chunk);
          setTimeout(next, gapMs);
          return;
        }
        ended.push(String(body.user));
        response.end("data: [DONE]\n\n");
      };
      setTimeout(next, firstMs);
    });
  });
  return { url, seen, ended };
}

function bodyOf(user: string, fields: object = {}) {
  const prompt = Array.from({ length: 400 }, (_, at) => at + 1);
  return { model: "toy", prompt, user, stream: true, max_tokens: 20, ...fields };
}

describe("the priority batch", () => {
  test("[CL207] waits while others run near their deadline, and goes when they have ended", async () => {
    const worker = await streamingWorker();
    const router = await routeTo([worker.url], { ttftDeadline: 100 });
    const { post } = clientsOf(router);
    const send = (user: string, fields: object = {}) =>
      post("/v1/completions", bodyOf(user, fields)).then(async (answer) => {
        await answer.text();
        return answer.status;
      });
    for (let at = 0; at < 12; at++) {
      expect(await send(`warm ${at}`, { deadlines: { ttft_ms: null } })).toBe(200);
    }
    const urgent = send("urgent", { deadlines: { ttft_ms: null } });
    await expect.poll(() => worker.seen.at(-1)?.user).toBe("urgent");
    const batch = send("batch", { priority: "batch" });
    await expect.poll(() => router.waiting).toBe(1);
    // It is in no one's way: what comes behind it goes at once.
    const behind = send("behind", { deadlines: { ttft_ms: null } });
    await expect.poll(() => worker.seen.at(-1)?.user).toBe("behind");
    expect(router.waiting).toBe(1);
    expect(await Promise.all([urgent, batch, behind])).toEqual([200, 200, 200]);
    expect(worker.seen.at(-1)?.user).toBe("batch");
    expect([router.waiting, router.openReservations]).toEqual([0, 0]);
  });

  test("[CL207] goes at once where no one has a deadline, and is never rejected early", async () => {
    const worker = await streamingWorker({ firstMs: 5, gapMs: 1 });
    const router = await routeTo([worker.url]);
    const { post } = clientsOf(router);
    for (const user of ["a", "b"]) {
      const sent = bodyOf(user, { priority: "batch", deadlines: { ttft_ms: 0.001 } });
      expect((await post("/v1/completions", sent)).status).toBe(200);
    }
  });

  test("[CL205] workers of other engines are sent neither deadlines nor the class", async () => {
    const worker = await streamingWorker({ firstMs: 1, gapMs: 1 });
    const router = await routeTo([worker.url]);
    const { post } = clientsOf(router);
    const fields = { deadlines: { tbt_ms: 5000 }, temperature: 0.5 };
    await (await post("/v1/completions", bodyOf("a", { ...fields, priority: "batch" }))).text();
    await (await post("/v1/completions", bodyOf("b", { ...fields, priority: 3 }))).text();
    expect(worker.seen.map(({ body }) => body)).toEqual([
      bodyOf("a", { temperature: 0.5 }),
      bodyOf("b", { temperature: 0.5, priority: 3 }),
    ]);
  });
});

describe("who would wait too long", () => {
  test("[CL208] is told so at once, behind those that wait; who waits too long, too", async () => {
    const worker = await streamingWorker({ firstMs: 100, gapMs: 2 });
    const router = await routeTo([worker.url], { workerRequestsMax: 1, ttftDeadline: 5000 });
    const { post, get } = clientsOf(router);
    const send = async (user: string, ttft_ms: number) => {
      const answer = await post("/v1/completions", bodyOf(user, { deadlines: { ttft_ms } }));
      return { status: answer.status, text: await answer.text() };
    };
    for (let at = 0; at < 12; at++) expect((await send(`warm ${at}`, 5000)).status).toBe(200);
    const running = Array.from({ length: 6 }, (_, at) => send(`r ${at}`, 60_000));
    await expect.poll(() => router.waiting).toBe(5);
    const found = await send("hopeless", 200);
    expect([found.status, JSON.parse(found.text).error.code]).toEqual([429, "deadline_unmeetable"]);
    const metrics = await (await get("/metrics")).text();
    expect(metrics).toMatch(/early_rejections_total\{reason="ttft",stage="queue"\} 1/);
    for (const each of await Promise.all(running)) expect(each.status).toBe(200);
    expect(worker.seen.some(({ user }) => user === "hopeless")).toBe(false);
    expect([router.waiting, router.openReservations]).toEqual([0, 0]);
  });
});
