/** Workers that are given by address: our own, other engines', and what is no worker at all. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { LoadWatch, type Member, StaticMembership } from "#cluster";
import { SaidOnce, WorkerHttp, type WorkerQuestion } from "#cluster/http";
import { type RunningServer, startServer } from "#server";
import { membershipContract } from "../../contracts/membership.ts";
import { type Answers, FOREIGN, serveForeign } from "../../support/foreign-server.ts";
import { freePort } from "../../support/redis-server.ts";
import { ToyModel } from "../../support/toy-model.ts";
import { until } from "../../support/until.ts";

const CHECK_MS = 50;
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** A server of ours; a draining one still has a request in work. */
async function serveOwn(port: number, apiKey: string[] = []) {
  const model = new ToyModel({ msPerToken: 20 });
  const options = { port, apiKey, logLevel: "silent", shutdownTimeoutMs: 60_000 } as const;
  const server: RunningServer = await startServer(model, options);
  closing.push(() => stop(server));
  return server;
}

async function stop(server: RunningServer): Promise<void> {
  const closed = server.close();
  await server.close(); // The second call ends the requests.
  await closed;
}

function watch(urls: readonly string[], access: { secret?: string; workerApiKey?: string } = {}) {
  const warnings: string[] = [];
  const warn = (message: string) => warnings.push(message);
  const lines: string[] = [];
  const say = (message: string) => lines.push(message);
  const membership = new StaticMembership({ urls, warn, say, checkMs: CHECK_MS, ...access });
  closing.unshift(() => membership.close());
  return { membership, warnings, lines };
}

membershipContract(
  async () => {
    const ports = { a: await freePort(), b: await freePort() };
    const urls = Object.values(ports).map((port) => `http://127.0.0.1:${port}`);
    const { membership } = watch(urls);
    return {
      membership,
      start: async (name) => {
        const server = await serveOwn(ports[name]);
        return {
          id: server.url,
          drain: async () => {
            const body = { prompt: "Hello", max_tokens: 4000, ignore_eos: true, stream: true };
            const answer = await fetch(`${server.url}/v1/completions`, {
              method: "POST",
              headers: { "content-type": "application/json" },
              body: JSON.stringify({ model: "toy", ...body }),
            });
            void answer.text().catch(() => {});
            void server.close();
          },
          leave: () => stop(server),
          die: () => stop(server),
        };
      },
      close: () => membership.close(),
    };
  },
  { leaves: false },
);

describe("a server of another engine", () => {
  test.each(Object.keys(FOREIGN) as (keyof typeof FOREIGN)[])(
    "[CL50] %s is told by what it answers",
    async (kind) => {
      const server = await serveForeign(FOREIGN[kind]);
      closing.push(server.close);
      const { membership } = watch([`${server.url}/v1/`]);
      await until("it joins", () => membership.workers.size === 1);
      const [member] = membership.workers.values();
      expect(member).toMatchObject({
        state: "ready",
        info: { id: server.url, kind, models: ["org/model"], contextTokensMax: 32768 },
      });
      const { version, kv } = member?.info ?? {};
      expect({ version, kv }).toEqual(
        {
          vllm: {
            version: "0.26.0",
            kv: { blockTokens: 16, blocks: [27283], groupWindows: [null] },
          },
          sglang: {
            version: "0.5.9",
            kv: { blockTokens: 64, blocks: [10_000], groupWindows: [null] },
          },
          "tensorrt-llm": {
            version: "1.2.0",
            kv: { blockTokens: 32, blocks: [0], groupWindows: [null] },
          },
          openai: { version: "unknown", kv: null },
        }[kind],
      );
    },
  );

  test("[CL50] that fails its checks is unreachable, and new when it is back", async () => {
    const server = await serveForeign(FOREIGN.vllm);
    closing.push(server.close);
    const { membership, warnings } = watch([server.url]);
    const member = () => membership.workers.get(server.url);
    await until("it joins", () => member()?.state === "ready");
    const epoch = member()?.info.epoch;
    server.answer({ ...FOREIGN.vllm, "/health": 500, "/worker_info": 500, "/v1/models": 500 });
    await until("it is unreachable", () => member()?.state === "unreachable");
    server.answer(FOREIGN.vllm);
    await until("it is back", () => member()?.state === "ready");
    expect(member()?.info.epoch).not.toBe(epoch);
    expect(warnings[0]).toBe(
      `Cannot reach worker ${server.url}: it must answer, current state is status 500 at ` +
        "/health; it gets no requests; trying again",
    );
    expect(warnings.at(-1)).toBe(`Worker ${server.url} answers`);
  });

  test("[CL50] gets its own key, and never the secret of the fleet but for one question", async () => {
    const server = await serveForeign(FOREIGN.vllm);
    closing.push(server.close);
    const { membership } = watch([server.url], { secret: "of-the-fleet", workerApiKey: "its-own" });
    await until("it joins", () => membership.workers.size === 1);
    const tokens = server.asked.map(([path, token]) => `${path} ${token}`);
    expect(tokens[0]).toBe("/worker_info of-the-fleet");
    expect(tokens.slice(1).every((line) => line.endsWith(" its-own"))).toBe(true);
  });
});

const STRANGE: readonly (readonly [what: string, answers: Answers, reason: string])[] = [
  ["a web site", { "/": "<html>", "/v1/models": 404 }, "status 404 at /v1/models"],
  ["text for JSON", { "/v1/models": "<html>" }, "no list of models at /v1/models"],
  ["no model", { "/v1/models": { data: [] } }, "a list of models without a model"],
  [
    "models of numbers",
    { "/v1/models": { data: [1, null, {}] } },
    "a list of models without a model",
  ],
  [
    "names that are lines",
    { "/v1/models": { data: [{ id: "a\nb" }] } },
    "a list of models without a model",
  ],
  [
    "an endless answer",
    { "/v1/models": "x".repeat(2_000_000) },
    "an answer of more than 1048576 bytes",
  ],
  ["a redirect", { "/worker_info": 302, "/v1/models": 302 }, "status 302 at /v1/models"],
  [
    "half a worker",
    { "/worker_info": { kind: "perigee", id: 7 } },
    "Cannot read a worker: id must be a text of 1 to 500 characters, current value is 7",
  ],
];

test.each(STRANGE)("[CL50] %s is no worker, which one line says", async (_, answers, reason) => {
  const server = await serveForeign(answers);
  closing.push(server.close);
  const { membership, warnings } = watch([server.url]);
  await until("it is asked twice", () => {
    return server.asked.filter(([path]) => path === "/worker_info").length > 1;
  });
  expect(membership.workers.size).toBe(0);
  expect(warnings).toEqual([
    `Cannot use worker ${server.url}: it must be a server, current state is ${reason}; ` +
      "check --worker; trying again",
  ]);
});

test.each([
  ["/worker_info", "--cluster-secret-file"],
  ["/v1/models", "--worker-api-key-file"],
])("[CL50] where %s refuses the router, a line names %s", async (path, flag) => {
  const server = await serveForeign({ "/worker_info": 404, "/v1/models": 404, [path]: 401 });
  closing.push(server.close);
  const { warnings } = watch([server.url]);
  await until("it is said", () => warnings.length > 0);
  expect(warnings[0]).toMatch(new RegExp(`is a refused .* \\(status 401\\); check ${flag};`));
});

test("[CL50] a worker that loads its model is no trouble: it is said once, and never warned of", async () => {
  const server = await serveForeign({ ...FOREIGN.vllm, "/worker_info": 503 });
  closing.push(server.close);
  const { membership, warnings, lines } = watch([server.url]);
  await until("it is asked twice", () => server.asked.length > 1);
  server.answer(FOREIGN.vllm);
  await until("it joins", () => membership.workers.size === 1);
  expect(warnings).toEqual([]);
  expect(lines).toEqual([`worker ${server.url} loads its model; trying again`]);
});

test("[CL50] reasons of a worker that starts are told once, whatever takes turns", () => {
  const said = new SaidOnce();
  const starting = [
    "a refused connection (ECONNREFUSED)",
    "a connection that was reset (ECONNRESET)",
    "no answer within 2000 ms",
    "a connection that it closed (UND_ERR_SOCKET)",
  ];
  expect(starting.map((reason) => said.isNew(reason))).toEqual([true, false, false, false]);
  const refused = "a refused secret (status 401)";
  expect([said.isNew(refused), said.isNew(refused)]).toEqual([true, false]);
  expect(starting.some((reason) => said.isNew(reason))).toBe(false);
  expect(said.end()).toHaveLength(2);
  expect(said.isNew(refused)).toBe(true);
  // A stranger that makes up reasons does not fill the log.
  const made = Array.from({ length: 100 }, (_, at) => said.isNew(`reason ${at}`));
  expect(made.filter(Boolean)).toHaveLength(15);
});

test("[CL50] a worker that comes later joins, and says so", async () => {
  const port = await freePort();
  const { membership, warnings } = watch([`http://127.0.0.1:${port}`]);
  await until("its absence is said", () => warnings.length > 0);
  await serveOwn(port);
  await until("it joins", () => membership.workers.size === 1);
  expect(warnings).toEqual([
    `Worker http://127.0.0.1:${port} is not up yet: a refused connection (ECONNREFUSED); ` +
      "trying again, check --worker if it should be",
    `Worker http://127.0.0.1:${port} answers`,
  ]);
});

test("[CL56] a worker with a secret answers those who know it", async () => {
  const server = await serveOwn(0, ["a-secret"]);
  const wrong = watch([server.url], { secret: "another" });
  await until("it is refused", () => wrong.warnings.length > 0);
  expect(wrong.warnings[0]).toContain("a refused secret (status 401)");
  const right = watch([server.url], { secret: "a-secret" });
  await until("it joins", () => right.membership.workers.size === 1);
  await sleep(3 * CHECK_MS);
  expect(wrong.membership.workers.size).toBe(0);
});

/** Counts questions. */
class CountingHttp extends WorkerHttp {
  asked = 0;

  override ask(url: string, question: WorkerQuestion) {
    this.asked++;
    return super.ask(url, question);
  }
}

/** One worker that is well, and what asks it. */
async function heardWorker() {
  const server = await serveOwn(0);
  const http = new CountingHttp();
  const urls = [server.url];
  const membership = new StaticMembership({ urls, warn: () => {}, checkMs: 4 * CHECK_MS, http });
  closing.unshift(() => membership.close());
  await until("it joins", () => membership.workers.size === 1);
  const stateNow = () => membership.workers.get(server.url)?.state;
  const member = membership.workers.get(server.url);
  if (member === undefined) throw new Error("no member");
  return { server, http, membership, member, stateNow };
}

/**
 * A membership is told of a worker for five times as long as between two checks. Returns how often
 * the news came so late that a check was due.
 */
async function hearOften(membership: StaticMembership, member: Member): Promise<number> {
  let late = 0;
  let toldMs = performance.now();
  for (let at = 0; at < 80; at++) {
    if (performance.now() - toldMs > 3 * CHECK_MS) late++;
    toldMs = performance.now();
    membership.heard(member);
    await sleep(CHECK_MS / 4);
  }
  return late;
}

test("[CL264] a worker that was told of is not asked before a while without such news", async () => {
  const { http, membership, member, stateNow } = await heardWorker();
  const before = http.asked;
  const late = await hearOften(membership, member);
  // Five times without the news; one check may have been due before.
  expect(http.asked - before).toBeLessThanOrEqual(1 + late);
  membership.heard({ ...member, state: "draining" });
  expect(stateNow()).toBe("draining");
  await until("it is asked itself", () => stateNow() === "ready");
});

test("[CL264] one that is away, or another one at its address, is asked all the same", async () => {
  const { server, membership, member, stateNow } = await heardWorker();
  membership.heard({ info: { ...member.info, epoch: "another" }, state: "draining" });
  expect(stateNow()).toBe("ready");
  await stop(server);
  await until("it is away", () => stateNow() === "unreachable");
  membership.heard(member);
  expect(stateNow()).toBe("unreachable");
});

test("[CL264] the load watch tells what a worker said", async () => {
  const { http, membership, member } = await heardWorker();
  const heard: Member[] = [];
  const listener = membership.heard.bind(membership);
  membership.heard = (told) => {
    heard.push(told);
    listener(told);
  };
  const watched = new LoadWatch(membership, {
    ...{ secret: null, http, intervalMs: CHECK_MS, onLoad: () => {} },
  });
  closing.unshift(async () => watched.close());
  await until("it is heard of", () => heard.length > 2);
  expect(heard[0]).toEqual(member);
});

test.each(["10.0.0.7:8000", "ftp://x", "", "http://x?key=1"])("[CL50] %j is no address", (url) => {
  expect(() => new StaticMembership({ urls: [url], warn: () => {} })).toThrow(
    /^Cannot use worker: worker must be an address such as http:\/\/10\.0\.0\.7:8000, current/,
  );
});
