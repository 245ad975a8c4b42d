/** Clients that read or write slowly, or not at all, at a server of the bundled model. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { LLM } from "#engine";
import { type RunningServer, type ServerOptions, startServer } from "#server";
import { sized } from "../support/full.ts";
import { RawClient } from "../support/raw-client.ts";

const WRITE_TIMEOUT_MS = 600;
/** Each chunk names the model: fewer than a hundred are more than the system's buffers take. */
const MODEL = "m".repeat(2 ** 16);
/** No more than a test's time-out: a busy machine may be slow to tell. */
const SOON = { timeout: 30_000 };

const messages = [{ role: "user", content: "Tell me about hash tables" }];
const long = { messages, max_tokens: 400, temperature: 0, ignore_eos: true };
const short = { messages, max_tokens: 20, temperature: 0, ignore_eos: true };

let llm: LLM;
const servers: RunningServer[] = [];
const clients: RawClient[] = [];

beforeAll(async () => {
  llm = await LLM.load("models/pocket", { unreadTokensMax: 16 });
});

afterEach(async () => {
  for (const client of clients.splice(0)) client.hangUp();
  await Promise.all(servers.splice(0).map((server) => server.close()));
  // Whatever the client did, nothing is left of it.
  await expect
    .poll(() => llm.stats(), SOON)
    .toMatchObject({ running: 0, waiting: 0, paused: 0, heldBlocks: 0 });
});

afterAll(async () => {
  await llm?.[Symbol.asyncDispose]();
});

function start(options: ServerOptions): Promise<RunningServer> {
  return startServer(llm, {
    ...{ port: 0, logLevel: "silent", servedModelName: [MODEL] },
    ...{ writeTimeoutMs: WRITE_TIMEOUT_MS, shutdownTimeoutMs: 0, ...options },
  });
}

/** For one test. */
async function serve(options: ServerOptions = {}): Promise<RunningServer> {
  const server = await start(options);
  servers.push(server);
  return server;
}

function connectTo({ url }: RunningServer, sipEveryMs: number | null = null): RawClient {
  const client = new RawClient(url, sipEveryMs);
  clients.push(client);
  return client;
}

const stall = (server: RunningServer, body: object = long) =>
  connectTo(server).post("/v1/chat/completions", { ...body, stream: true });

async function textOf(server: RunningServer): Promise<string> {
  const answer = await fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...short, stream: true }),
  });
  const events = (await answer.text()).split("\n\n").filter((event) => event.startsWith("data: {"));
  const deltas = events.map((event) => JSON.parse(event.slice("data: ".length)).choices[0].delta);
  return deltas.map(({ content }) => content ?? "").join("");
}

const inWork = async ({ url }: RunningServer): Promise<number> => {
  const info = await (await fetch(`${url}/server_info`)).json();
  return (info as { requests_in_work: number }).requests_in_work;
};

describe("readers that stall", () => {
  test("pause in the engine, delay no other stream, and are cut at the write deadline", async () => {
    const server = await serve({ writeTimeoutMs: sized(2000, 5000) });
    const expected = await textOf(server);
    const stalled = Array.from({ length: sized(8, 16) }, () => stall(server));
    await expect.poll(() => llm.stats().paused, SOON).toBe(stalled.length);
    const before = llm.stats().generatedTokens;
    const texts = await Promise.all(Array.from({ length: 4 }, () => textOf(server)));
    expect(texts).toEqual([expected, expected, expected, expected]);
    // Nothing was generated for streams that are not read.
    expect(llm.stats().generatedTokens - before).toBeLessThanOrEqual(4 * short.max_tokens);
    await expect.poll(() => inWork(server), SOON).toBe(0);
    await Promise.all(stalled.map((client) => client.cut()));
  });

  test("are cut where they read a byte now and then", async () => {
    const server = await serve();
    connectTo(server, 20).post("/v1/chat/completions", { ...long, stream: true });
    await expect.poll(() => llm.stats().paused, SOON).toBe(1);
    await expect.poll(() => inWork(server), SOON).toBe(0);
  });

  test("are not cut where they are slow and go on: they get everything", async () => {
    const server = await serve({ writeTimeoutMs: 10_000 });
    const client = stall(server, { ...long, max_tokens: 150 });
    let text = "";
    while (!text.includes("[DONE]")) {
      text = text.slice(-10) + (await client.read(1));
      await sleep(5);
    }
    expect(await inWork(server)).toBe(0);
  });

  test("are cut in a long answer that is not streamed; others get all of it", async () => {
    const name = "m".repeat(2 ** 23);
    const server = await serve({ servedModelName: [name] });
    const body = { prompt: "Hash", max_tokens: 1 };
    const whole = await fetch(`${server.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const text = await whole.text();
    expect(JSON.parse(text).model).toBe(name);
    expect(whole.headers.get("content-length")).toBe(String(text.length));
    const stalled = connectTo(server).post("/v1/completions", body);
    await expect.poll(() => inWork(server), SOON).toBe(1);
    await expect.poll(() => inWork(server), SOON).toBe(0);
    await stalled.cut();
  });

  test("take with them what they asked for behind what they do not read", async () => {
    const server = await serve();
    const client = stall(server);
    for (let request = 0; request < 20; request++) {
      client.post("/v1/chat/completions", { ...long, stream: true });
    }
    await expect.poll(() => inWork(server), SOON).toBe(0);
    await client.cut();
  });

  test("free their requests when they hang up, also those that wait for their turn", async () => {
    const server = await serve({ writeTimeoutMs: 60_000 });
    const client = stall(server);
    for (let request = 0; request < 3; request++) {
      client.post("/v1/chat/completions", { ...long, stream: true });
    }
    await expect.poll(() => llm.stats().paused, SOON).toBeGreaterThan(0);
    client.hangUp();
    await expect.poll(() => inWork(server), SOON).toBe(0);
  });
});

describe("writers that stall", () => {
  const head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";

  const parts = [
    { part: "headers", text: head },
    { part: "a body", text: `${head}content-length: 1000\r\n\r\n{"prompt": ` },
    { part: "nothing", text: "" },
  ];
  // Connections are taken over from the thread that accepts them where others answer.
  const cases = [0, 1].flatMap((answeringThreads) =>
    parts.map((part) => ({ ...part, answeringThreads })),
  );
  /** One for each number of threads: a thread takes a while to start. */
  const strict: RunningServer[] = [];
  afterAll(() => Promise.all(strict.map((server) => server.close())));

  test.each(cases)(
    "are told and cut when they send $part and no more ($answeringThreads threads)",
    async ({ text, answeringThreads }) => {
      const limits = { headersTimeoutMs: 300, requestTimeoutMs: 400 };
      const server = strict[answeringThreads] ?? (await start({ ...limits, answeringThreads }));
      strict[answeringThreads] = server;
      const answer = await connectTo(server).send(text).read();
      expect(answer).toMatch(/^HTTP\/1.1 408/);
    },
  );

  test("are cut when they send nothing after an answer", async () => {
    const server = await serve({ idleTimeoutMs: 300 });
    const client = connectTo(server).get("/health");
    expect(await client.read()).toMatch(/^HTTP\/1.1 200/);
  });

  test("more connections than are allowed are closed at once, and come back", async () => {
    const server = await serve({ connectionsMax: 3 });
    const held = await Promise.all([1, 2, 3].map(() => connectTo(server).connected()));
    await connectTo(server).closed;
    for (const client of held) client.hangUp();
    await expect
      .poll(async () => {
        const client = connectTo(server).send("GET /health HTTP/1.0\r\n\r\n");
        return (await client.read()).slice(0, 12);
      }, SOON)
      .toBe("HTTP/1.1 200");
  });
});

describe("a server that shuts down", () => {
  test("waits no longer than it was told to, whatever clients do or leave undone", async () => {
    const server = await serve({ writeTimeoutMs: 600_000, shutdownTimeoutMs: 200 });
    const head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
    const stalled = Array.from({ length: 4 }, () => stall(server));
    await expect.poll(() => llm.stats().paused, SOON).toBe(4);
    const others = [
      connectTo(server).send(head),
      connectTo(server).send(`${head}content-length: 1000\r\n\r\n{"prompt": `),
      connectTo(server).get("/kv_cache_events/stream"),
      connectTo(server).post("/kv_cache_events?timeout_ms=600000", {}),
      connectTo(server).get("/metrics"),
      connectTo(server).post("/tokenize", { prompt: "a b ".repeat(200_000) }),
      connectTo(server),
    ];
    await Promise.all(others.map((client) => client.connected()));
    await sleep(100);
    // Without a bound of its own a test would say only that it took too long.
    const ended = await Promise.race([server.close().then(() => "closed"), sleep(20_000, "waits")]);
    expect(ended).toBe("closed");
    await Promise.all([...stalled, ...others].map((client) => client.cut()));
  });

  test("tells a stream that is read that it ends, and why", async () => {
    const server = await serve({ shutdownTimeoutMs: 0, servedModelName: ["m"] });
    const client = stall(server);
    let text = await client.read(1);
    const closing = server.close();
    text += await client.read();
    await closing;
    expect(text).toContain('"code":"shutting_down"');
    expect(text).toContain("data: [DONE]");
  });
});

test("readers of the cache's events are so many at most", async () => {
  const server = await serve({ kvEventStreamsMax: 1 });
  connectTo(server).get("/kv_cache_events/stream");
  await expect
    .poll(async () => {
      const stop = new AbortController();
      const { signal } = stop;
      const { status } = await fetch(`${server.url}/kv_cache_events/stream`, { signal });
      stop.abort();
      return status;
    }, SOON)
    .toBe(429);
});
