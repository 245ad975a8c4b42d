/** Each fault alone, with real processes: mock workers behind networks of a test's own. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { valuesOf } from "../../chaos/chaos-books.ts";
import { type Heard, listen } from "../../chaos/chaos-request.ts";
import { FaultProxy } from "../../support/fault-proxy.ts";
import { FleetProcess } from "../../support/fleet-process.ts";
import { sized } from "../../support/full.ts";
import { json } from "../../support/json.ts";
import { freePort, NO_REDIS, TestRedis } from "../../support/redis-server.ts";

const STREAMS = sized(12, 64);
const TOKENS = 40;
const DEADLINE_MS = 60_000;
const MOCK = ["worker", "--mock", "--served-model-name", "mock", "--log-level", "warn"];
const SHORT = [
  ...["--token-timeout-ms", "1500", "--first-token-timeout-ms", "5000"],
  ...["--connect-timeout-ms", "1000", "--answer-timeout-ms", "10000"],
];

interface Placed {
  readonly process: FleetProcess;
  readonly network: FaultProxy;
}

async function placed(...words: string[]): Promise<Placed> {
  const port = await freePort();
  const network = await FaultProxy.start(port);
  const process = await FleetProcess.start([...MOCK, "--port", `${port}`, ...words]);
  return { process, network };
}

async function metric(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return [...valuesOf(text, name).values()].reduce((sum, value) => sum + value, 0);
}

/** Streams of different prompts and seeds at once; `during` is called when all were sent. */
async function streams(urls: readonly string[], during = async () => {}): Promise<Heard[]> {
  const sent = Array.from({ length: STREAMS }, (_, at) => {
    const body = {
      ...{ model: "mock", max_tokens: TOKENS, temperature: 1, seed: at, ignore_eos: true },
      prompt: `Tell me story number ${at}.`,
      ...{ stream: at % 4 !== 0, stream_options: at % 4 === 0 ? null : { include_usage: true } },
    };
    const url = urls[at % urls.length] ?? "";
    const patience = { deadlineMs: DEADLINE_MS, leaveAfterMs: null };
    return listen(url, { path: "/v1/completions", body }, patience);
  });
  await sleep(120);
  await during();
  return await Promise.all(sent);
}

/** What an undisturbed worker answers. */
let right: readonly Heard[] = [];
let calm: FleetProcess;
const others: (FleetProcess | FaultProxy)[] = [];

async function routed(...words: string[]): Promise<FleetProcess> {
  const router = await FleetProcess.start(["route", "--port", "0", ...SHORT, ...words]);
  others.push(router);
  return router;
}

beforeAll(async () => {
  calm = await FleetProcess.start([...MOCK, "--port", "0", "--speedup", "20"]);
  right = await streams([calm.url]);
  expect(right.every(({ kind }) => kind === "answered")).toBe(true);
});

afterAll(async () => {
  await calm.end("SIGKILL");
  for (const other of others) {
    if (other instanceof FaultProxy) await other.close();
    else await other.end("SIGKILL");
  }
});

describe("networks that fail", () => {
  let ill: Placed;
  let router: FleetProcess;
  beforeAll(async () => {
    const well = await placed();
    ill = await placed();
    for (const { process, network } of [ill, well]) others.push(process, network);
    const list = [ill, well].flatMap(({ network }) => ["--worker", network.url]);
    router = await routed(...list, "--policy", "round-robin", "--breaker-open-ms", "100");
  });

  const FAULTS: Readonly<Record<string, (network: FaultProxy) => Promise<void> | void>> = {
    "connections are cut": (network) => network.cut(),
    "answers are cut in the middle of an event": (network) => network.cutAfter(1234),
    "connections are half closed": (network) => network.halfClose(),
    "nothing comes through any more": (network) => network.become({ type: "silent" }),
    "all is late": async (network) => {
      network.become({ type: "slow", delayMs: 120 });
      await sleep(1500);
    },
    "connections are refused": (network) => {
      network.become({ type: "refusing" });
      network.cut();
    },
    "the worker answers 500": (network) => {
      network.become({ type: "answering", status: 500 });
      network.cut();
    },
  };

  test.each(Object.keys(FAULTS))("[CL130] %s: the tokens of undisturbed answers", async (name) => {
    const { network } = ill;
    try {
      expect(await streams([router.url], async () => FAULTS[name]?.(network))).toEqual(right);
    } finally {
      network.heal();
    }
    await expect.poll(() => metric(router.url, "open_reservations")).toBe(0);
    expect(await metric(router.url, "leaked_reservations")).toBe(0);
    // It is served by both again.
    await expect
      .poll(() => metric(router.url, "breaker_state"), { timeout: DEADLINE_MS, interval: 100 })
      .toBeLessThan(2);
    expect(router.log.join("\n")).not.toMatch(/unhandled|uncaught|TypeError/i);
  });

  test("[CL85] a worker that is stopped is left after the deadline, and serves again", async () => {
    const during = async () => ill.process.signal("SIGSTOP");
    expect(await streams([router.url], during)).toEqual(right);
    ill.process.signal("SIGCONT");
    await expect.poll(() => metric(router.url, "open_reservations")).toBe(0);
    await sleep(200);
    expect(await streams([router.url])).toEqual(right);
  });
});

describe.skipIf(NO_REDIS !== null)(`two routers of one Redis (${NO_REDIS ?? "it is here"})`, () => {
  const folder = mkdtempSync(join(tmpdir(), "perigee-clock-"));
  const clock = join(folder, "clock");
  const env = {
    PERIGEE_TEST_CLOCK: clock,
    NODE_OPTIONS: `--import=${resolve("test/support/stepped-clock.mjs")}`,
  };
  let redis: TestRedis;
  let workers: FleetProcess[];
  let routers: FleetProcess[];
  beforeAll(async () => {
    redis = await TestRedis.start();
    const words = ["--port", "0", "--redis", redis.url];
    const start = (given: readonly string[]) => FleetProcess.start([...given, ...words], { env });
    workers = await Promise.all([start(MOCK), start(MOCK)]);
    routers = await Promise.all([start(["route", ...SHORT]), start(["route", ...SHORT])]);
    others.push(...workers, ...routers);
  });
  afterAll(async () => {
    await redis.close();
    rmSync(folder, { recursive: true });
  });

  const urls = () => routers.map(({ url }) => url);

  test("[CL43] both know both workers", async () => {
    for (const { url } of routers) {
      await expect.poll(() => metric(url, "workers"), { timeout: DEADLINE_MS }).toBe(2);
    }
  });

  test("[CL44] [CL130] clocks that are set, a year on and a year back, change nothing", async () => {
    const yearMs = 365 * 86_400_000;
    for (const aheadMs of [yearMs, -yearMs, 0]) {
      const disturbed = await streams(urls(), async () => {
        writeFileSync(clock, String(aheadMs));
        for (const process of [...workers, ...routers]) process.signal("SIGUSR2");
      });
      expect(disturbed).toEqual(right);
    }
    for (const { url } of routers) expect(await metric(url, "workers")).toBe(2);
  });

  test("[CL45] Redis is killed under streams and comes back empty: none notices", async () => {
    expect(await streams(urls(), () => redis.kill())).toEqual(right);
    expect(await streams(urls())).toEqual(right);
    await redis.start();
    expect(await streams(urls())).toEqual(right);
    const client = redis.client();
    await expect
      .poll(() => client.scard("perigee:workers"), { timeout: DEADLINE_MS, interval: 100 })
      .toBe(2);
    client.disconnect();
    for (const { url } of routers) expect(await metric(url, "workers")).toBe(2);
  });

  test("[CL54] one of two routers is killed: the other goes on, and its load is forgotten", async () => {
    const [first, second] = routers;
    if (first === undefined || second === undefined) throw new Error("There are two");
    const heard = await streams([first.url, second.url], async () => {
      await second.end("SIGKILL");
    });
    for (const [at, one] of heard.entries()) {
      if (at % 2 === 0) expect(one).toEqual(right[at]);
      else expect(["cut", "answered"]).toContain(one.kind);
    }
    // What the dead one had handed out is ended at the workers, and load no more after its lease.
    for (const { url } of workers) {
      await expect
        .poll(async () => Number((await json(fetch(`${url}/server_info`))).requests_in_work))
        .toBe(0);
    }
    await expect
      .poll(() => metric(first.url, "worker_requests"), { timeout: DEADLINE_MS, interval: 100 })
      .toBe(0);
    expect(await streams([first.url])).toEqual(right);
  });
});
