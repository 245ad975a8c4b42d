import type { IncomingMessage } from "node:http";
import { describe, expect, test } from "vitest";
import type { RunningRouter } from "#cluster";
import { clientsOf, closeRouters, routeTo, routeToys } from "../../support/router-fleet.ts";
import {
  closeStrangeWorker,
  closeStrangeWorkers,
  rawWorker,
  strangeWorker,
} from "../../support/strange-worker.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeRouters();
closeToyServers();
closeStrangeWorkers();

const chat = { messages: [{ role: "user" as const, content: "hello there" }], model: "toy" };
const streamed = { ...chat, stream: true };
const event = 'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n';
const sse = { "content-type": "text/event-stream" };

async function idle(router: RunningRouter): Promise<void> {
  await expect.poll(() => router.inWork + router.openReservations).toBe(0);
}

describe("answers that are no failure of the worker", () => {
  test("[CL82] 4xx is passed on, asked once, and opens no breaker", async () => {
    let asked = 0;
    const url = await strangeWorker((_request, response) => {
      asked++;
      response.writeHead(422, { "content-type": "application/json" }).end('{"detail":"no"}');
    });
    const router = await routeTo([url], { breakerFailures: 1 });
    const { post, get } = clientsOf(router);
    for (let turn = 1; turn <= 5; turn++) {
      const answer = await post("/v1/chat/completions", chat);
      expect([answer.status, await answer.text(), asked]).toEqual([422, '{"detail":"no"}', turn]);
    }
    expect((await get("/health")).status).toBe(200);
    await idle(router);
  });

  test("[CL82] a worker that is full (429) is no failure: another gets the request", async () => {
    const full = await strangeWorker((_request, response) => {
      response.writeHead(429, { "retry-after": "3" }).end("{}");
    });
    const toy = await serveToy();
    const router = await routeTo([full, toy.server.url], { breakerFailures: 1, policy: "random" });
    const { post } = clientsOf(router);
    for (let turn = 0; turn < 20; turn++) {
      expect((await post("/v1/chat/completions", chat)).status).toBe(200);
    }
    const alone = clientsOf(await routeTo([full], { breakerFailures: 1 }));
    const refused = await alone.post("/v1/chat/completions", chat);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "3"]);
    expect((await alone.get("/health")).status).toBe(200);
  });
});

describe("deadlines", () => {
  test("[CL85] a worker that says nothing is left for another one, or gives 504", async () => {
    const silent = await strangeWorker(() => {});
    const short = { firstTokenTimeoutMs: 1500, answerTimeoutMs: 1500, policy: "random" } as const;
    const toy = await serveToy();
    const { post } = clientsOf(await routeTo([silent, toy.server.url], short));
    for (const body of [chat, streamed, chat, streamed]) {
      expect((await post("/v1/chat/completions", body)).status).toBe(200);
    }
    const router = await routeTo([silent], short);
    const answer = await clientsOf(router).post("/v1/chat/completions", streamed);
    expect(answer.status).toBe(504);
    expect(await answer.json()).toMatchObject({ error: { code: "worker_timeout" } });
    await idle(router);
  });

  test("[CL85] a stream that stops ends with an error event after the time between tokens", async () => {
    const url = await strangeWorker((_request, response) => {
      response.writeHead(200, sse).write(event);
      // Comments are no tokens.
      const timer = setInterval(() => response.write(": still here\n\n"), 20);
      response.once("close", () => clearInterval(timer));
    });
    const router = await routeTo([url], { tokenTimeoutMs: 150 });
    const text = await (await clientsOf(router).post("/v1/chat/completions", streamed)).text();
    expect(text.startsWith(event)).toBe(true);
    expect(text).toMatch(/data: \{"error":\{.*"code":"worker_timeout"\}\}\n\ndata: \[DONE\]\n\n$/);
    await idle(router);
  });

  test("[CL85] a worker that takes no connections costs no request", async () => {
    const toy = await serveToy();
    const gone = await strangeWorker(() => {});
    const router = await routeTo([gone, toy.server.url], { policy: "random", breakerFailures: 2 });
    closeStrangeWorker(gone);
    const { post, get } = clientsOf(router);
    for (let turn = 0; turn < 20; turn++) {
      expect((await post("/v1/chat/completions", streamed)).status).toBe(200);
    }
    const metrics = await (await get("/metrics")).text();
    expect(metrics).toContain('outcome="ok"');
    await idle(router);
  });
});

describe("clients that go away", () => {
  test.each([
    ["before the head", false],
    ["within the stream", true],
  ])("[CL86] %s: the worker's connection is closed at once", async (_when, begins) => {
    let seen: IncomingMessage | null = null;
    let closed = false;
    const url = await strangeWorker((request, response) => {
      seen = request;
      if (begins) response.writeHead(200, sse).write(event);
      response.once("close", () => {
        closed = true;
      });
    });
    const router = await routeTo([url]);
    const controller = new AbortController();
    const { post } = clientsOf(router);
    const answer = post("/v1/chat/completions", streamed, { signal: controller.signal });
    if (begins) await answer;
    await expect.poll(() => seen).not.toBeNull();
    controller.abort();
    await answer.catch(() => {});
    await expect.poll(() => closed).toBe(true);
    await idle(router);
  });

  test("[CL86] a toy worker ends the request's work", async () => {
    const { workers, router, post } = await routeToys([
      { msPerToken: 20, reply: () => "x".repeat(500) },
    ]);
    const controller = new AbortController();
    const { signal } = controller;
    const answer = await post("/v1/chat/completions", streamed, { signal });
    await answer.body?.getReader().read();
    controller.abort();
    await expect.poll(() => workers[0]?.model.abortedCount).toBe(1);
    await idle(router);
  });
});

describe("hostile answers", () => {
  const HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
  const ANSWERS: Readonly<Record<string, (write: (text: string) => boolean) => void>> = {
    "headers without end": (write) => {
      write(HEAD);
      for (let at = 0; at < 2000; at++) write(`x-${at}: ${"y".repeat(100)}\r\n`);
    },
    "no HTTP": (write) => write("\0\0\0 hello\r\n\r\n"),
    "a length that is no number": (write) => write(`${HEAD}content-length: many\r\n\r\n`),
    "two lengths": (write) => write(`${HEAD}content-length: 4\r\ncontent-length: 5\r\n\r\nabcd`),
    "a chunk of no length": (write) => write(`${HEAD}transfer-encoding: chunked\r\n\r\nzz\r\n`),
    "an event without end": (write) => {
      write(`${HEAD}\r\ndata: `);
      for (let at = 0; at < 300; at++) write("z".repeat(2 ** 16));
    },
    "informational answers": (write) => {
      for (let at = 0; at < 500; at++) write("HTTP/1.1 103 Early Hints\r\n\r\n");
      write("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc");
    },
  };

  test.each(Object.keys(ANSWERS))(
    "[CL88] %s: the request ends, and the next is served",
    async (name) => {
      const url = await rawWorker((socket) => {
        ANSWERS[name]?.((text) => socket.write(text, "latin1"));
        socket.end();
      });
      const router = await routeTo([url], { tokenTimeoutMs: 500, firstTokenTimeoutMs: 500 });
      const { post, get } = clientsOf(router);
      const answer = await post("/v1/chat/completions", streamed);
      await answer.text().catch(() => "cut");
      await idle(router);
      expect((await get("/health/live")).status).toBe(200);
    },
  );

  test("[CL88] an answer without end is relayed at the reader's speed, and cut at the limit", async () => {
    const url = await rawWorker((socket) => {
      socket.write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n");
      const more = () => {
        while (socket.writable && socket.write("7".repeat(2 ** 16)));
        if (socket.writable) socket.once("drain", more);
      };
      more();
    });
    const limit = 24 * 2 ** 20;
    const router = await routeTo([url], { answerBytesMax: limit });
    const answer = await clientsOf(router).post("/v1/chat/completions", chat);
    let bytes = 0;
    const reader = answer.body?.getReader();
    try {
      for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) {
        bytes += part.value.length;
      }
    } catch {
      bytes += 0; // it is cut
    }
    expect(bytes).toBeGreaterThan(8 * 2 ** 20);
    expect(bytes).toBeLessThanOrEqual(limit);
    await idle(router);
  });
});

describe("books", () => {
  test("[CL87] they are at zero after streams that end, fail and are left", async () => {
    let turn = 0;
    const moody = await strangeWorker((_request, response) => {
      turn++;
      if (turn % 4 === 0) response.writeHead(500).end("{}");
      else if (turn % 4 === 1) response.socket?.destroy();
      else if (turn % 4 === 2) response.writeHead(200, sse).write(event, () => response.destroy());
      else response.writeHead(200, sse).end(`${event}data: [DONE]\n\n`);
    });
    const toy = await serveToy({ msPerToken: 1 });
    const urls = [moody, toy.server.url];
    const router = await routeTo(urls, { policy: "round-robin", breakerOpenMs: 1 });
    const { post } = clientsOf(router);
    const requests = Array.from({ length: 200 }, async (_, at) => {
      const leaves = at % 5 === 0;
      const signal = leaves ? AbortSignal.timeout(1 + (at % 20)) : null;
      const answer = await post("/v1/chat/completions", at % 2 === 0 ? streamed : chat, { signal });
      await answer.text();
    });
    const results = await Promise.allSettled(requests);
    expect(results.length).toBe(200);
    await idle(router);
    await expect.poll(() => toy.model.runningCount).toBe(0);
  });
});
