/** Doors that any client may knock at thousands of times, beside ordinary streams. */
import { connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { full, sized } from "../support/full.ts";
import { OrdinaryStreams } from "./ordinary-streams.ts";
import { ServedProcess } from "./served-process.ts";

const KNOCKS = sized(200, 2_000);
const AT_ONCE = 32;
/** On a machine that does nothing else: looked at where everything is tested. */
const PAUSE_MS_MAX = full ? 250 : Number.POSITIVE_INFINITY;
const PAUSE_RUNS = 5;
const ANSWER_BYTES_MAX = 2 ** 20;

/** One kind of knocking; returns what was wrong with answers. */
interface Storm {
  readonly name: string;
  run(url: string): Promise<readonly string[]>;
}

const READ = ["/openapi.json", "/docs", "/api/tags", "/api/ps", "/api/version", "/"] as const;
const HUGE = `?${"a=1&".repeat(2000)}`;
const WRONG_METHODS = ["POST", "PUT", "PATCH", "DELETE"] as const;

const STORMS: readonly Storm[] = [
  ...READ.map((path) => ({
    name: `GET ${path}`,
    run: (url: string) => knock(KNOCKS, () => answered(url + path, {}, [200])),
  })),
  {
    name: "long queries",
    run: (url) =>
      knock(KNOCKS, (at) =>
        answered(`${url}${READ[at % READ.length]}${HUGE}`, {}, [200, 400, 414, 431]),
      ),
  },
  {
    name: "wrong methods",
    run: (url) =>
      knock(KNOCKS, (at) => {
        const method = WRONG_METHODS[at % WRONG_METHODS.length] ?? "POST";
        const body = "{".repeat(10_000);
        return answered(`${url}${READ[at % READ.length]}`, { method, body }, [404, 405]);
      }),
  },
  {
    name: "models that are managed",
    run: (url) =>
      knock(KNOCKS, (at) => {
        const what = ["pull", "push", "create", "copy"][at % 4];
        const headers = { "content-type": "application/json" };
        const body = JSON.stringify({ model: "x".repeat(at * 100), from: "../../etc/passwd" });
        return answered(`${url}/api/${what}`, { method: "POST", headers, body }, [501]);
      }),
  },
  {
    name: "pages that are opened and dropped",
    run: (url) =>
      knock(KNOCKS, async () => {
        const stop = new AbortController();
        const { signal } = stop;
        const { status } = await fetch(`${url}/dashboard/events?view=cache`, { signal });
        stop.abort();
        return [200, 429].includes(status) ? null : `${status}`;
      }),
  },
  {
    name: "looks at the whole tree, each another one",
    run: (url) =>
      knock(KNOCKS, (at) =>
        answered(`${url}/dashboard/prefixes?runs=${1 + (at % 400)}`, {}, [200, 429]),
      ),
  },
  {
    name: "looks at nodes that are none",
    run: (url) =>
      knock(KNOCKS, (at) => {
        const query = `node=${2 ** 31 - 1 - at}&serial=${at}`;
        return answered(`${url}/dashboard/prefixes?${query}`, {}, [200, 429]);
      }),
  },
  { name: "pages that read nothing", run: silentPages },
];

/** So many calls, some at a time; what they found wrong. */
async function knock(
  count: number,
  call: (at: number) => Promise<string | null>,
): Promise<readonly string[]> {
  const problems: string[] = [];
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const problem = await call(next++);
      if (problem !== null) problems.push(problem);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return [...new Set(problems)];
}

/** Null: one of these statuses, and no long answer. */
async function answered(
  url: string,
  init: RequestInit,
  statuses: readonly number[],
): Promise<string | null> {
  const answer = await fetch(url, init);
  const text = await answer.text();
  if (text.length > ANSWER_BYTES_MAX) return `${url}: ${text.length} bytes`;
  return statuses.includes(answer.status) ? null : `${url.slice(0, 90)}: ${answer.status}`;
}

/** As many as there may be, which stay for a while; then others get their places. */
async function silentPages(url: string): Promise<readonly string[]> {
  const { hostname, port } = new URL(url);
  const sockets: Socket[] = [];
  const stay = () => {
    const socket = connect({ host: hostname, port: Number(port) });
    socket.on("error", () => {});
    socket.pause();
    socket.write("GET /dashboard/events?view=cache HTTP/1.1\r\nhost: a\r\n\r\n");
    sockets.push(socket);
  };
  for (let at = 0; at < 64; at++) stay();
  const problems: string[] = [];
  try {
    const asked = async () => {
      const status = await openPage(url);
      // While this look had a place, one of those that stay may have been refused.
      if (status === 200) stay();
      return status;
    };
    await expect.poll(asked, { timeout: 30_000, interval: 20 }).toBe(429);
    for (let at = 0; at < 20; at++) {
      const problem = await answered(`${url}/version`, {}, [200]);
      if (problem !== null) problems.push(problem);
    }
  } finally {
    for (const socket of sockets) socket.destroy();
  }
  await expect.poll(async () => openPage(url), { timeout: 30_000, interval: 20 }).toBe(200);
  return problems;
}

async function openPage(url: string): Promise<number> {
  const answer = await fetch(`${url}/dashboard/events`);
  await answer.body?.cancel();
  return answer.status;
}

test("thousands of knocks at each open door hold up no other request", {
  timeout: sized(6, 40) * 60_000,
}, async () => {
  const server = await ServedProcess.start(".");
  onTestFinished(() => server.kill());
  const streams = await OrdinaryStreams.start(server.url);
  onTestFinished(() => streams.kill());
  const problems: string[] = [];
  const measured = async ({ name, run }: Storm): Promise<number> => {
    const window = streams.openWindow();
    for (const problem of await run(server.url)) problems.push(`${name}: ${problem}`);
    return await streams.closeWindow(window);
  };
  const slow: string[] = [];
  for (const storm of STORMS) {
    const pauses = [await measured(storm)];
    if ((pauses[0] ?? 0) <= PAUSE_MS_MAX) continue;
    while (pauses.length < PAUSE_RUNS) pauses.push(await measured(storm));
    const median = pauses.sort((a, b) => a - b)[PAUSE_RUNS >> 1] ?? 0;
    if (median > PAUSE_MS_MAX) slow.push(`${storm.name}: ${median} ms`);
  }
  expect(problems).toEqual([]);
  expect(slow).toEqual([]);
  expect(streams.problems).toEqual([]);
  await streams.stop();
  expect(await server.settled()).toMatchObject({ requests: 0, heldBlocks: 0 });
  expect(server.log.filter((line) => /"level":(50|60)/.test(line))).toEqual([]);
  expect(await server.stop()).toBe(0);
});
