/** Connections handed to other threads: what a client sees is what one thread would answer. */
import { existsSync, readdirSync } from "node:fs";
import { Agent, get as httpGet, request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { LLM } from "#engine";
import { type RunningServer, type ServerOptions, startServer } from "#server";
import { defaultThreads, withShare } from "../../../src/server/answering/answering-threads.ts";
import { readEvents } from "../../support/events.ts";
import { json } from "../../support/json.ts";

const built = existsSync("dist/server/answering/answering-thread.js");
const model = "test/fixtures/models/llama";
const prompt = [1, 2, 3, 4, 5];
const endless = { prompt, max_tokens: 100, ignore_eos: true, temperature: 0, stream: true };

const DRAIN = { method: "POST" };

const open: (LLM | RunningServer)[] = [];

/** Models behind one server after another. */
let onCpu: LLM;
let onReference: LLM;

/** With two answering threads, for tests that leave it as it was. */
let shared: Served;

beforeAll(async () => {
  if (!built) return;
  onCpu = await load("cpu");
  onReference = await load("reference");
  shared = await serve(2);
  open.splice(0);
});

afterAll(async () => {
  if (!built) return;
  for (const one of [shared.server, onCpu, onReference]) await one[Symbol.asyncDispose]();
});

afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one[Symbol.asyncDispose]();
});

interface Served {
  readonly llm: LLM;
  readonly server: RunningServer;
  /** Requests that the main thread's own client had. */
  readonly own: () => number;
  post(body: unknown, init?: RequestInit): Promise<Response>;
  get(path: string, init?: RequestInit): Promise<Response>;
}

/** The reference device takes a while for its tokens: where a test wants them under way. */
function load(device: "cpu" | "reference"): Promise<LLM> {
  // Events have as many tokens as steps, whatever the others do.
  return LLM.load(model, { device, threads: 1, speculative: { kind: "off" } });
}

async function serve(
  threads: number,
  options: ServerOptions = {},
  llm: LLM = onCpu,
): Promise<Served> {
  let own = 0;
  llm.listen({ onRequestEnd: () => own++ });
  const common = { port: 0, logLevel: "silent", shutdownTimeoutMs: 5000 } as const;
  const server = await startServer(llm, { ...common, answeringThreads: threads, ...options });
  open.push(server);
  return {
    llm,
    server,
    own: () => own,
    post: (body, init = {}) =>
      fetch(`${server.url}/v1/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
        ...init,
      }),
    get: (path, init) => fetch(server.url + path, init),
  };
}

/** The workers that answer, as they are started from now on. */
function watchWorkers(): Worker[] {
  const workers: Worker[] = [];
  const post = Worker.prototype.postMessage;
  const spy = vi.spyOn(Worker.prototype, "postMessage");
  spy.mockImplementation(function (this: Worker, message: { type?: string }, transfer) {
    if (message.type === "serve") workers.push(this);
    post.call(this, message, transfer as never);
  });
  onTestFinished(() => spy.mockRestore());
  return workers;
}

async function idle({ llm, get }: Served): Promise<void> {
  const state = async () => {
    const { requests_in_work: requests } = await json(get("/server_info"));
    return [Number(requests), llm.stats().running, llm.stats().heldBlocks];
  };
  await expect.poll(state, { timeout: 10_000 }).toEqual([0, 0, 0]);
}

describe.runIf(built)("with two answering threads", () => {
  test("requests are answered by threads, and the main thread has none", async () => {
    const served = shared;
    const texts = await Promise.all(
      Array.from({ length: 8 }, async () => (await served.post(endless)).text()),
    );
    // Ids differ, tokens do not.
    const plain = texts.map((text) => text.replaceAll(/"(id|created)":[^,]+,/g, ""));
    expect(new Set(plain).size).toBe(1);
    expect(plain[0]).toContain("[DONE]");
    expect(served.own()).toBe(0);
    await idle(served);
  });

  test("answers of the main thread come as they are", async () => {
    const [one, other] = [await serve(0), shared];
    const paths: readonly (readonly [string, RequestInit])[] = [
      ["/health", {}],
      ["/health", { method: "HEAD" }],
      ["/version", {}],
      ["/", {}],
      ["/nowhere", {}],
      ["/v1/models", {}],
      ["/v1/models/unknown", {}],
      ["/v1/completions", {}],
      ["/v1/completions", { method: "DELETE" }],
      ["/kv_cache_events", { method: "POST", body: "[" }],
      ["/kv_cache_events", { method: "POST" }],
      ["/kv_cache_events?timeout_ms=x", { method: "POST", body: "{}" }],
      ["/v1/completions", { method: "OPTIONS", headers: { origin: "http://a" } }],
      ["/v1/completions", { method: "POST", body: "{" }],
      ["/v1/completions", { method: "POST", body: "{}", headers: { "content-type": "a/b" } }],
    ];
    const answerOf = async (served: Served, path: string, init: RequestInit) => {
      const answer = await served.get(path, init);
      const headers = Object.fromEntries(answer.headers);
      const { date: _, ...rest } = headers;
      const body = (await answer.text()).replace(/"created":\d+/, "");
      return { status: answer.status, headers: rest, body };
    };
    // What the cache told in other tests is taken away.
    await idle(other);
    for (const { get } of [one, other]) await (await get("/kv_cache_events", DRAIN)).text();
    for (const [path, init] of paths) {
      expect(await answerOf(other, path, init)).toEqual(await answerOf(one, path, init));
    }
  });

  test("counts of all threads stand in one answer of /metrics", async () => {
    // Of its own: it has counted nothing else.
    const llm = await load("cpu");
    open.push(llm);
    const served = await serve(2, {}, llm);
    await Promise.all(Array.from({ length: 6 }, async () => (await served.post(endless)).text()));
    await Promise.all(Array.from({ length: 3 }, async () => (await served.post({})).text()));
    await idle(served);
    const series = async (name: string) => {
      const text = await (await served.get("/metrics")).text();
      const lines = text.split("\n").filter((line) => line.startsWith(`vllm:${name}`));
      expect(new Set(lines.map((line) => line.replace(/ \S+$/, ""))).size).toBe(lines.length);
      return lines.map((line) => Number(line.split(" ").at(-1)));
    };
    expect(await series("e2e_request_latency_seconds_count")).toEqual([6]);
    expect(await series("request_generation_tokens_sum")).toEqual([600]);
    expect(await series("generation_tokens_total")).toEqual([600]);
    expect(await series('request_success_total{model_name="llama",engine="0",f')).toEqual([6]);
    const refused = 'http_requests_total{model_name="llama",engine="0",handler="/v1/completions"';
    expect((await series(refused)).sort()).toEqual([3, 6]);
    const steps = (await series("steps_total"))[0] ?? 0;
    expect(await series("iteration_tokens_total_count")).toEqual([steps]);
  });

  test("the limit of requests in work is the server's, not a thread's", async () => {
    const served = await serve(2, { concurrentRequestsMax: 3 }, onReference);
    const controller = new AbortController();
    const { signal } = controller;
    const running = await Promise.all(
      Array.from({ length: 3 }, () =>
        served.post({ ...endless, n: 1, max_tokens: 100 }, { signal }),
      ),
    );
    const readers = running.map((answer) => answer.body?.getReader());
    await Promise.all(readers.map((reader) => reader?.read()));
    const statuses = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const answer = await served.post(endless);
        return [answer.status, (await answer.text()).includes("current value is 3")];
      }),
    );
    // The three may have ended meanwhile: then there was room.
    for (const [status, tells] of statuses) if (status === 429) expect(tells).toBe(true);
    controller.abort();
    for (const reader of readers) reader?.cancel().catch(() => undefined);
    await idle(served);
    expect((await served.post({ ...endless, max_tokens: 1 })).status).toBe(200);
  });

  test("a client that hangs up frees its blocks", async () => {
    const served = shared;
    for (let round = 0; round < 4; round++) {
      const controller = new AbortController();
      const answer = await served.post({ ...endless, n: 1 }, { signal: controller.signal });
      await answer.body?.getReader().read();
      controller.abort();
    }
    await idle(served);
  });

  test("events of the cache are followed through a thread, and end with the server", async () => {
    const served = await serve(2);
    const answer = await served.get("/kv_cache_events/stream");
    const text = answer.text();
    await (await served.post({ ...endless, prompt: [21, 22, 23] })).text();
    await idle(served);
    await served.server.close();
    const all = await text;
    expect(all).toContain("event: snapshot");
    expect(all).toContain('"type":"stored"');
    expect(all.endsWith("\n\n")).toBe(true);
  });

  test("a poll for events that a client left takes none away", async () => {
    const served = shared;
    await (await served.post({ kv_cache_events: 1, ...endless, max_tokens: 1 })).text();
    const events = (timeout: number, signal?: AbortSignal) =>
      served.get("/kv_cache_events", {
        method: "POST",
        body: JSON.stringify({ timeout_ms: timeout }),
        ...(signal === undefined ? {} : { signal }),
      });
    expect((await json(await events(0))) as unknown as unknown[]).not.toHaveLength(0);
    const controller = new AbortController();
    const left = events(60_000, controller.signal).catch(() => "left");
    await sleep(50);
    controller.abort();
    expect(await left).toBe("left");
    await sleep(50);
    await (await served.post({ ...endless, prompt: [9, 8, 7], max_tokens: 30 })).text();
    await expect
      .poll(async () => ((await json(await events(0))) as unknown as unknown[]).length)
      .toBeGreaterThan(0);
  });
});

describe.runIf(built)("closing with two answering threads", () => {
  test("what runs is finished, and what comes is refused with 503", async () => {
    const served = await serve(2);
    const running = await Promise.all(Array.from({ length: 4 }, () => served.post(endless)));
    const closed = served.server.close();
    const refused = await served.post(endless).catch(() => null);
    if (refused !== null) expect(refused.status).toBe(503);
    for (const answer of running) {
      const events = await readEvents(answer);
      expect(events.at(-1)?.choices?.[0]?.finish_reason).toBe("length");
    }
    await closed;
    await expect(served.get("/health")).rejects.toThrow();
  });

  test("a second close ends what runs at once, on every thread", async () => {
    const served = await serve(2, { shutdownTimeoutMs: 60_000 }, onReference);
    const many = { ...endless, n: 8, temperature: 1, max_tokens: 110 };
    const running = await Promise.all(Array.from({ length: 6 }, () => served.post(many)));
    const closed = served.server.close();
    void served.server.close();
    const lasts = await Promise.all(
      running.map(async (answer) => (await readEvents(answer)).at(-1)?.error?.code ?? null),
    );
    expect(new Set([...lasts, null])).toEqual(new Set(["shutting_down", null]));
    expect(lasts).toContain("shutting_down");
    await closed;
  });
});

describe.runIf(built)("a thread that crashes", () => {
  test("its requests end, others go on, and a new one takes its place", async () => {
    const workers = watchWorkers();
    const served = await serve(2);
    const agent = new Agent({ keepAlive: true });
    onTestFinished(() => agent.destroy());
    const running = await Promise.all(Array.from({ length: 4 }, () => served.post(endless)));
    expect(workers).toHaveLength(2);
    await workers[0]?.terminate();
    const outcomes = await Promise.all(
      running.map((answer) =>
        answer.text().then(
          (text) => text.includes("[DONE]"),
          () => false,
        ),
      ),
    );
    // Two of the four were on it, unless they had ended before.
    expect(outcomes.filter((whole) => whole).length).toBeGreaterThanOrEqual(2);
    await expect.poll(() => workers.length, { timeout: 10_000 }).toBe(3);
    await idle(served);
    const after = await Promise.all(
      Array.from({ length: 6 }, async () => (await served.post(endless)).text()),
    );
    for (const text of after) expect(text).toContain("[DONE]");
    expect(served.own()).toBe(0);
  });

  test("connections that it never took over are another's", async () => {
    const workers = watchWorkers();
    const served = await serve(2);
    for (const worker of workers.splice(0)) void worker.terminate();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () =>
        served.post({ ...endless, max_tokens: 2 }).catch(() => null),
      ),
    );
    expect(answers.some((answer) => answer?.status === 200)).toBe(true);
    await expect.poll(() => workers.length, { timeout: 10_000 }).toBe(2);
    expect((await served.post({ ...endless, max_tokens: 2 })).status).toBe(200);
  });
});

describe.runIf(built)("connections", () => {
  const descriptors = () => readdirSync("/proc/self/fd").length;

  /** Sends bytes, reads until the other side closes or so many ms are over. */
  async function exchange(server: RunningServer, text: string, end: boolean): Promise<string> {
    const { hostname, port } = new URL(server.url);
    const socket: Socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
    let read = "";
    socket.on("data", (data) => {
      read += String(data);
    });
    socket.on("error", () => undefined);
    socket.write(text);
    if (end) socket.end();
    await Promise.race([new Promise((resolve) => socket.once("end", resolve)), sleep(2000)]);
    socket.destroy();
    return read;
  }

  test.runIf(process.platform === "linux")("no descriptor is left behind", async () => {
    const served = shared;
    const agent = new Agent({ keepAlive: true, maxSockets: 8 });
    const ask = () =>
      new Promise<number>((resolve, reject) => {
        httpGet(`${served.server.url}/version`, { agent }, (answer) => {
          answer.resume();
          answer.once("end", () => resolve(answer.statusCode ?? 0));
        }).once("error", reject);
      });
    const round = async () => {
      const asked = await Promise.all(Array.from({ length: 24 }, ask));
      expect(new Set(asked)).toEqual(new Set([200]));
      await exchange(served.server, "nonsense\r\n\r\n", false);
      await exchange(served.server, "GET /version HTTP/1.1\r\nhost: a\r\n\r\n", true);
      await Promise.all(
        Array.from({ length: 8 }, async () => {
          const controller = new AbortController();
          const answer = await served.post(endless, { signal: controller.signal });
          await answer.body?.getReader().read();
          controller.abort();
        }),
      );
      agent.destroy();
      await idle(served);
    };
    await round();
    await sleep(50);
    const before = descriptors();
    for (let i = 0; i < 3; i++) await round();
    // Connections of fetch, which this process has too, may differ by some.
    await expect.poll(descriptors, { timeout: 5000 }).toBeLessThanOrEqual(before + 8);
  });

  test("bytes that are no HTTP get 400, as on one thread", async () => {
    const [one, other] = [await serve(0), shared];
    const text = "nonsense\r\n\r\n";
    const answer = await exchange(other.server, text, false);
    expect(answer).toMatch(/^HTTP\/1.1 400 Bad Request/);
    expect(answer).toBe(await exchange(one.server, text, false));
  });

  test("a client that ends in the middle of its request is let go", async () => {
    const text = "POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n{";
    const before = performance.now();
    expect(await exchange(shared.server, text, true)).not.toContain("200 OK");
    expect(performance.now() - before).toBeLessThan(2000);
    expect((await shared.get("/health")).status).toBe(200);
  });

  test("several requests of one connection stay in order", async () => {
    const served = shared;
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    const ask = (path: string) =>
      new Promise<{ status: number; headers: IncomingHttpHeaders }>((resolve, reject) => {
        const asking = httpRequest(`${served.server.url}${path}`, { agent }, (answer) => {
          answer.resume();
          const { statusCode: status = 0, headers } = answer;
          answer.once("end", () => resolve({ status, headers }));
        });
        asking.once("error", reject).end();
      });
    for (const path of ["/health", "/nowhere", "/version", "/v1/completions", "/metrics"]) {
      const { status, headers } = await ask(path);
      expect([200, 404, 405]).toContain(status);
      expect(headers.connection).toBe("keep-alive");
    }
  });

  test.each(["::1", "localhost"])("%s is listened to", async (host) => {
    const served = await serve(2, { host }).catch(() => null);
    // A machine without the family has nothing to listen on.
    if (served === null) return;
    expect((await served.get("/version")).status).toBe(200);
    expect((await served.post({ ...endless, max_tokens: 1 })).status).toBe(200);
  });
});

test.each([
  [3, 1, 3],
  [3, 2, 2],
  [3, 8, 2],
  [16, 4, 4],
  [1, 4, 1],
])("%d text threads among %d answering threads are %d each", async (textWorkers, threads, each) => {
  const settings = { device: "reference", engineThread: false, textWorkers } as const;
  await using llm = await LLM.load(model, settings);
  const connection = llm.connect();
  connection.port.close();
  expect(withShare(connection, threads).settings.textWorkers).toBe(each);
});

test("few cores answer on the main thread, many on several", () => {
  expect([1, 2, 4, 7].map(defaultThreads)).toEqual([0, 0, 0, 0]);
  expect(defaultThreads(8)).toBeGreaterThan(0);
  expect(defaultThreads(16)).toBeGreaterThanOrEqual(4);
  expect(defaultThreads(256)).toBeLessThanOrEqual(8);
});
