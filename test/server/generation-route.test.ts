import { request as httpRequest } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { ToyModel } from "../support/toy-model.ts";
import { closeToyServers, serveToy } from "../support/toy-server.ts";

closeToyServers();

const messages = [{ role: "user" as const, content: "hello" }];
/** 4000 tokens of a millisecond, at least. A busy machine may be slow to tell, not that slow. */
const WELL_BEFORE_END_MS = 2000;
const endless = { reply: () => "x".repeat(4000), msPerToken: 1 };

/** Waits until nothing runs; the time it took in ms. */
async function idle(model: ToyModel): Promise<number> {
  const start = performance.now();
  while (model.runningCount > 0 && performance.now() - start < 5000) await sleep(1);
  return performance.now() - start;
}

describe("a client that hangs up", () => {
  test("in a stream frees its request long before it would have ended", async () => {
    const { client, model } = await serveToy(endless);
    const stream = await client.chat.completions.create({ model: "toy", messages, stream: true });
    let chunks = 0;
    for await (const _ of stream) {
      chunks += 1;
      if (chunks === 5) break; // the client closes its connection
    }
    expect(await idle(model)).toBeLessThan(WELL_BEFORE_END_MS);
    expect(model.abortedCount).toBe(1);
  });

  test("while it waits for a whole answer frees its request long before it would have ended", async () => {
    const { client, model } = await serveToy(endless);
    const controller = new AbortController();
    const answer = client.chat.completions.create(
      { model: "toy", messages },
      { signal: controller.signal },
    );
    while (model.runningCount === 0) await sleep(1);
    controller.abort();
    await expect(answer).rejects.toThrow();
    expect(await idle(model)).toBeLessThan(WELL_BEFORE_END_MS);
    expect(model.abortedCount).toBe(1);
  });

  test("takes all prompts of its request with it", async () => {
    const { client, model } = await serveToy(endless);
    const stream = await client.completions.create({
      model: "toy",
      prompt: ["a", "b", "c"],
      max_tokens: 4000,
      stream: true,
    });
    for await (const _ of stream) break;
    expect(await idle(model)).toBeLessThan(WELL_BEFORE_END_MS);
    expect(model.abortedCount).toBe(3);
  });

  test("fifty times at random moments leaves nothing running", async () => {
    const { model, server } = await serveToy(endless);
    await Promise.all(
      Array.from({ length: 50 }, async (_, i) => {
        const controller = new AbortController();
        const answer = fetch(`${server.url}/v1/chat/completions`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ messages, stream: i % 2 === 0 }),
          signal: controller.signal,
        }).then((response) => response.text());
        setTimeout(() => controller.abort(), (i * 7) % 40);
        await expect(answer).rejects.toThrow();
      }),
    );
    await expect
      .poll(async () => (await (await fetch(`${server.url}/server_info`)).json()) as object)
      .toMatchObject({ requests_in_work: 0, stats: { running: 0 } });
    expect(model.runningCount).toBe(0);
  });
});

describe("a reader that is slow", () => {
  test("makes the engine wait instead of filling memory, and loses nothing", async () => {
    // Each chunk names the model: 1,500 times 16 KB is more than sockets buffer.
    const text = "y".repeat(1500);
    const { model, server } = await serveToy(
      { reply: () => text },
      { servedModelName: ["m".repeat(16_384)] },
    );
    const body = JSON.stringify({
      messages,
      stream: true,
    });
    const response = await new Promise<import("node:http").IncomingMessage>((resolve, reject) => {
      const request = httpRequest(`${server.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
      });
      request.on("response", resolve).on("error", reject).end(body);
    });
    let previous = -1;
    let generated = 0;
    while (generated !== previous) {
      previous = generated;
      await sleep(300); // no one reads: the toy, which is pulled, must come to rest
      generated = model.stats().generatedTokens;
    }
    expect(generated).toBeGreaterThan(0);
    expect(generated).toBeLessThan(1500);
    let received = "";
    for await (const piece of response) received += piece;
    expect(received.match(/"content":"y"/g)).toHaveLength(1500);
    expect(received.endsWith("data: [DONE]\n\n")).toBe(true);
  });
});

describe("a stream that is silent", () => {
  const silent = { reply: () => "ab", msPerToken: 100 };

  test("is kept alive by comments, before its first event and between events", async () => {
    const { post } = await serveToy(silent, { streamKeepAliveMs: 30 });
    const answer = await post("/v1/chat/completions", { messages, stream: true });
    expect(answer.headers.get("content-type")).toContain("text/event-stream");
    const text = await answer.text();
    expect(text.startsWith(": keep-alive\n\n")).toBe(true);
    expect(text).toMatch(/"content":"a".*\n\n(: keep-alive\n\n)+data: .*"content":"b"/);
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
  });

  test("is read by the official client as if there were no comments", async () => {
    const { client } = await serveToy(silent, { streamKeepAliveMs: 30 });
    const stream = await client.chat.completions.create({ model: "toy", messages, stream: true });
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    expect(text).toBe("ab");
  });

  test("fails with an event where it fails after a comment", async () => {
    const { post } = await serveToy(
      { ...silent, failAfterTokens: 0 },
      { streamKeepAliveMs: 30, logLevel: "silent" },
    );
    const answer = await post("/v1/chat/completions", { messages, stream: true });
    expect(answer.status).toBe(200);
    expect(await answer.text()).toMatch(/^: keep-alive\n\n.*"code":"engine_step_failed"/s);
  });

  test("whose client hangs up before the first event frees its request", async () => {
    const { post, model } = await serveToy(
      { ...silent, msPerToken: 10_000 },
      { streamKeepAliveMs: 10 },
    );
    const answer = await post("/v1/chat/completions", { messages, stream: true });
    await answer.body?.cancel();
    expect(await idle(model)).toBeLessThan(WELL_BEFORE_END_MS);
    expect(model.abortedCount).toBe(1);
  });
});

describe("ids", () => {
  test("the client's request id names the answer, by body or header", async () => {
    const { post } = await serveToy({}, { enableRequestIdHeaders: true });
    const byBody = await post("/v1/completions", { prompt: "a", request_id: "mine" });
    expect(JSON.parse(await byBody.text()).id).toBe("cmpl-mine");
    const byHeader = await post("/v1/completions", { prompt: "a" }, { "x-request-id": "head" });
    expect(JSON.parse(await byHeader.text()).id).toBe("cmpl-head");
    expect(byHeader.headers.get("x-request-id")).toBe("head");
  });

  test("the engine never sees one id twice", async () => {
    const { post, model } = await serveToy();
    const body = { prompt: "a", request_id: "same" };
    await Promise.all([post("/v1/completions", body), post("/v1/completions", body)]);
    expect(new Set(model.requests.map(({ requestId }) => requestId)).size).toBe(2);
  });
});

test("more requests than the limit get 429 and Retry-After, and places come back", async () => {
  const { post, model } = await serveToy(
    { reply: () => "z".repeat(50), msPerToken: 1 },
    { concurrentRequestsMax: 2 },
  );
  const running = [1, 2].map(() => post("/v1/completions", { prompt: "a", max_tokens: 50 }));
  while (model.runningCount < 2) await sleep(1);
  const refused = await post("/v1/completions", { prompt: "a" });
  expect(refused.status).toBe(429);
  expect(refused.headers.get("retry-after")).toBe("1");
  expect((await Promise.all(running)).map(({ status }) => status)).toEqual([200, 200]);
  expect((await post("/v1/completions", { prompt: "a" })).status).toBe(200);
});
