/** What strangers may send to the doors of the live page, while the model serves. */
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LLM } from "#engine";
import { type RunningServer, startServer } from "#server";

/** How long another request may wait: as everywhere in this suite. */
const PAUSE_MS_MAX = 250;

let llm: LLM;
let server: RunningServer;

beforeAll(async () => {
  llm = await LLM.load("models/pocket", { kvCache: { poolBytes: 2 ** 24 } });
  const options = { port: 0, logLevel: "silent", dashboardViewersMax: 8, writeTimeoutMs: 2000 };
  server = await startServer(llm, { ...options, logLevel: "silent", adminKey: ["admin"] });
});

afterAll(async () => {
  await server?.close();
  await llm?.close();
});

const NUMBERS = [
  ...["-1", "1.5", "1e9", "0x1", "NaN", "Infinity", "null", "", " 1", "99999999999999999999"],
  ...["%00", "%ff", "__proto__", "constructor", "<script>", "%F0%9F%98%80", "1".repeat(5000)],
];

/** Paths with a query of each kind of wrong value. */
const PATHS = [
  ...NUMBERS.flatMap((value) => [
    `/dashboard/prefixes?runs=${value}`,
    `/dashboard/prefixes?node=${value}&serial=0`,
    `/dashboard/prefixes?node=0&serial=${value}`,
    `/dashboard/text?node=${value}&serial=${value}`,
    `/dashboard/events?view=${value || "x"}`,
    `/dashboard/assets/${value}`,
  ]),
  ...["/dashboard/prefixes?runs=1&runs=2", "/dashboard/prefixes?runs[]=1", "/dashboard"],
  ...["/dashboard/", "/dashboard/assets/", "/dashboard/assets/../index.html", "/dashboard/x"],
  ...["/dashboard/assets/%2e%2e%2f%2e%2e%2findex.html", "/dashboard/events?__proto__[view]=now"],
  `/dashboard/prefixes?${"a=1&".repeat(3000)}`,
];

test("no query harms, and each answer is short and of the right kind", async () => {
  const odd: string[] = [];
  for (const path of PATHS) {
    const answer = await fetch(server.url + path, { headers: { authorization: "Bearer admin" } });
    // A stream that was opened by a wrong name of the field is right: the default view.
    if (answer.headers.get("content-type")?.startsWith("text/event-stream")) {
      await answer.body?.cancel();
      continue;
    }
    const text = await answer.text();
    const isFine = [200, 400, 404, 414, 429, 431].includes(answer.status) && text.length < 100_000;
    // Errors quote what was sent, as JSON, which no browser takes for markup.
    const type = answer.headers.get("content-type") ?? "";
    if (!isFine || !type.startsWith("application/json"))
      odd.push(`${path.slice(0, 90)} → ${answer.status}`);
  }
  expect(odd).toEqual([]);
  expect((await fetch(`${server.url}/health`)).status).toBe(200);
});

test("other methods and bodies are refused", async () => {
  for (const path of ["/dashboard/events", "/dashboard/prefixes", "/dashboard/text", "/"]) {
    for (const method of ["POST", "PUT", "DELETE", "PATCH"]) {
      const answer = await fetch(server.url + path, { method, body: "{".repeat(1000) });
      expect([path, method, answer.status]).toEqual([path, method, 405]);
      expect(await answer.text()).toContain("use GET");
    }
  }
});

test("pages that are opened and dropped, a thousand times, leave nothing behind", async () => {
  const open = async () => {
    const stop = new AbortController();
    await fetch(`${server.url}/dashboard/events?view=cache`, { signal: stop.signal });
    stop.abort();
  };
  for (let turn = 0; turn < 125; turn++) await Promise.all(Array.from({ length: 8 }, open));
  const openAgain = async () => {
    const answer = await fetch(`${server.url}/dashboard/events`);
    await answer.body?.cancel();
    return answer.status;
  };
  await expect.poll(openAgain, { timeout: 10_000 }).toBe(200);
});

test("no request waits for pages that read nothing, and their places are free when they go", async () => {
  const { hostname, port } = new URL(server.url);
  const sockets = Array.from({ length: 8 }, () => {
    const socket = connect({ host: hostname, port: Number(port) });
    socket.pause();
    socket.write("GET /dashboard/events?view=cache HTTP/1.1\r\nhost: a\r\n\r\n");
    return socket;
  });
  await expect
    .poll(async () => (await fetch(`${server.url}/dashboard/events`)).status, { timeout: 10_000 })
    .toBe(429);
  const waits = await waitsDuring(async () => {
    await llm.generate("A cache is", { maxTokens: 200, ignoreEos: true, temperature: 0 });
  });
  expect(Math.max(...waits)).toBeLessThan(PAUSE_MS_MAX);
  for (const socket of sockets) socket.destroy();
  await expect
    .poll(
      async () => {
        const answer = await fetch(`${server.url}/dashboard/events`);
        await answer.body?.cancel();
        return answer.status;
      },
      { timeout: 10_000 },
    )
    .toBe(200);
});

test("a storm of looks at the tree holds up no token for long", async () => {
  await Promise.all(
    Array.from({ length: 64 }, (_, at) =>
      llm.generate(`Conversation ${at} begins. `.repeat(10), { maxTokens: 4, temperature: 0 }),
    ),
  );
  const alone = await longestGap();
  const stop = new AbortController();
  const { signal } = stop;
  const events = await fetch(`${server.url}/dashboard/events?view=cache`, { signal });
  const storm = Array.from({ length: 16 }, async (_, at) => {
    for (let turn = 0; !signal.aborted; turn++) {
      const query = `runs=${1 + ((at + turn) % 400)}`;
      await (await fetch(`${server.url}/dashboard/prefixes?${query}`, { signal })).text();
    }
  });
  const stormy = await longestGap();
  stop.abort();
  await Promise.allSettled([...storm, events.text()]);
  // Beside all other tests on few processors, every step takes its time.
  expect(stormy).toBeLessThan(Math.max(PAUSE_MS_MAX, 3 * alone));
});

/** The longest time between two tokens of a stream, in ms. */
async function longestGap(): Promise<number> {
  let longestMs = 0;
  let lastMs = performance.now();
  const options = { maxTokens: 200, ignoreEos: true, temperature: 0 };
  for await (const _ of llm.stream("A prefix is", options)) {
    longestMs = Math.max(longestMs, performance.now() - lastMs);
    lastMs = performance.now();
  }
  return longestMs;
}

/** How long small requests take while something else runs, in ms. */
async function waitsDuring(work: () => Promise<void>): Promise<number[]> {
  const waits: number[] = [];
  let isOver = false;
  const asking = (async () => {
    while (!isOver) {
      const startMs = performance.now();
      await (await fetch(`${server.url}/version`)).text();
      waits.push(performance.now() - startMs);
      await sleep(5);
    }
  })();
  await work();
  isOver = true;
  await asking;
  return waits;
}
