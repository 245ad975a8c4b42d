import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ROUTING_POLICIES, startRouter } from "#cluster";
import { bundledModel } from "#engine";
import { problemsOf, type StatusCounts } from "../../../src/cluster/router/status-watch.ts";
import { joinedMetrics } from "../../../src/cluster/router/worker-metrics.ts";
import { freePort } from "../../support/redis-server.ts";
import { clientsOf, closeRouters, routeTo, routeToys } from "../../support/router-fleet.ts";
import { closeStrangeWorkers, strangeWorker } from "../../support/strange-worker.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeRouters();
closeToyServers();
closeStrangeWorkers();

const chat = { messages: [{ role: "user" as const, content: "hello there" }], model: "toy" };

describe("secrets", () => {
  test("[CL89] clients need the router's key, workers get their own, and never the client's", async () => {
    const seen: unknown[] = [];
    const url = await strangeWorker((incoming, response) => {
      seen.push([incoming.headers.authorization, incoming.headers.cookie]);
      response.setHeader("content-type", "application/json").end("{}");
    });
    const router = await routeTo([url], { apiKey: ["client-key"] }, { workerApiKey: "worker-key" });
    const { post, get } = clientsOf(router);
    expect((await post("/v1/chat/completions", chat)).status).toBe(401);
    expect((await get("/route/explain?prompt=x")).status).toBe(401);
    const headers = { authorization: "Bearer client-key", cookie: "a=b" };
    expect((await post("/v1/chat/completions", chat, { headers })).status).toBe(200);
    expect(seen).toEqual([["Bearer worker-key", undefined]]);
    const info = await (await get("/server_info", { headers })).text();
    expect(info).not.toMatch(/client-key|worker-key/);
  });

  test("[CL89] a worker that refuses the router's secret is no fault of the client", async () => {
    const url = await strangeWorker((_incoming, response) => {
      response.writeHead(401).end('{"error":{"message":"who are you"}}');
    });
    const { post } = clientsOf(await routeTo([url]));
    const answer = await post("/v1/chat/completions", chat);
    expect(answer.status).toBe(502);
    expect(await answer.text()).toContain("check --worker-api-key-file");
  });

  test("[CL89] with a certificate clients come by https", async () => {
    const folder = mkdtempSync(join(tmpdir(), "perigee-tls-"));
    const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
    try {
      execFileSync(
        "openssl",
        `req -x509 -newkey rsa:2048 -nodes -keyout ${key} -out ${cert} -days 2 -subj /CN=localhost`.split(
          " ",
        ),
        { stdio: "ignore" },
      );
      const { server } = await serveToy();
      const tls = { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
      const { url } = await routeTo([server.url], {}, { tls });
      expect(url).toMatch(/^https:/);
      const status = await new Promise((resolve, reject) => {
        const options = { ca: tls.cert, servername: "localhost" };
        request(`${url}/health`, options, ({ statusCode }) => resolve(statusCode))
          .on("error", reject)
          .end();
      });
      expect(status).toBe(200);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe("the start", () => {
  test.each([
    [{}, "give --worker URL or --redis URL"],
    [{ redis: "localhost:6379" }, "redis must be an address"],
    [{ worker: ["http://127.0.0.1:9"], model: ["/nowhere/a-model"] }, "/nowhere/a-model"],
  ])("a router that cannot start says why and leaves its port: %o", async (options, reason) => {
    const port = await freePort();
    await expect(startRouter({ port, logLevel: "silent", ...options })).rejects.toThrow(reason);
    const { router } = await routeToys([{}], { port });
    expect(router.url).toMatch(new RegExp(`:${port}$`));
  });
});

test("[CL50] without any worker a router is not ready, whatever model is asked for", async () => {
  const away = `http://127.0.0.1:${await freePort()}`;
  const { get, post } = clientsOf(await routeTo([away]));
  for (const answer of [
    await get("/health/ready"),
    await get("/v1/models"),
    await get("/v1/models/toy"),
    await post("/v1/chat/completions", chat),
  ]) {
    expect(answer.status).toBe(503);
  }
});

describe("the end", () => {
  test("[CL90] running requests finish, new ones get 503, a second call ends them", async () => {
    const { router, post, get } = await routeToys(
      [{ msPerToken: 10, reply: () => "y".repeat(60) }],
      {
        shutdownTimeoutMs: 20_000,
      },
    );
    const answer = post("/v1/chat/completions", chat);
    await expect.poll(() => router.inWork).toBe(1);
    const closed = router.close();
    const refused = await get("/health");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "5"]);
    expect((await post("/v1/chat/completions", chat)).status).toBe(503);
    expect((await answer).status).toBe(200);
    await closed;
    expect(router.openReservations).toBe(0);
  });
});

test("[CL90] requests that are cut off at the end of the shutdown's time are told why", async () => {
  const { router, post } = await routeToys([{ msPerToken: 20, reply: () => "y".repeat(2000) }], {
    shutdownTimeoutMs: 50,
  });
  const whole = post("/v1/chat/completions", chat);
  const stream = await post("/v1/chat/completions", { ...chat, stream: true });
  await expect.poll(() => router.inWork).toBe(2);
  const closed = router.close();
  const why = "The router is shutting down and cut this answer off";
  const answer = await whole;
  expect(answer.status).toBe(503);
  expect(await answer.text()).toContain(why);
  expect(await stream.text()).toContain(why);
  await closed;
  expect(router.openReservations).toBe(0);
});

describe("explanations", () => {
  test("[CL91] they name each worker's terms and who gets it, and book nothing", async () => {
    const { workers, router, post, get } = await routeToys([{}, {}]);
    const explained = (await (await post("/route/explain", chat)).json()) as {
      chosen: string;
      workers: { id: string; cost_ms: number; terms_ms: object }[];
    };
    const urls = workers.map(({ server }) => server.url);
    expect(explained.workers.map(({ id }) => id).sort()).toEqual([...urls].sort());
    expect(urls).toContain(explained.chosen);
    expect(explained.workers.every(({ cost_ms: cost }) => cost >= 0)).toBe(true);
    expect(router.openReservations).toBe(0);
    expect(workers.every(({ model }) => model.requests.length === 0)).toBe(true);
    expect((await get("/route/explain?prompt=hello")).status).toBe(200);
    expect((await get("/route/explain")).status).toBe(400);
    const unknown = (await (
      await post("/route/explain", { ...chat, model: "x" })
    ).json()) as object;
    expect(unknown).toMatchObject({ chosen: null, unrouted: "model" });
  });

  test.each(ROUTING_POLICIES)("[CL91] all names of fields are snake_case: %s", async (policy) => {
    const { get, post } = await routeToys([{}, {}], { policy });
    await post("/v1/chat/completions", chat);
    const text = await (await get("/route/explain?prompt=hello")).text();
    const names = [...text.matchAll(/"([^"]*)":/g)].map(([, name]) => name);
    expect(names).toContain("uncached_tokens");
    for (const name of names) expect(name).toMatch(/^[a-z]+(_[a-z]+)*$/);
  });

  test("[CL91] prompts that share a beginning go where it is, also where no tokenizer is known", async () => {
    const { workers, client } = await routeToys([{}, {}, {}]);
    const long = "a long beginning that all of these share, word for word. ".repeat(20);
    for (let turn = 0; turn < 8; turn++) {
      const messages = [{ role: "user" as const, content: `${long}${turn}` }];
      await client.chat.completions.create({ ...chat, messages });
    }
    const counts = workers.map(({ model }) => model.requests.length);
    // The first of them are routed by speeds that are not measured yet.
    expect(Math.max(...counts)).toBeGreaterThanOrEqual(5);
  });
});

describe("tokens", () => {
  test("[CL92] a worker whose tokenizer makes other ids than the router's gets texts", async () => {
    // The toy has the name, but bytes for tokens.
    const { workers, client, get } = await routeToys([{ defaultName: "pocket" }]);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const answer = await client.chat.completions.create({ ...chat, model: "pocket" });
    expect(answer.choices[0]?.message.content).toBe("HELLO THERE");
    expect(workers[0]?.model.chats.length).toBeGreaterThan(0);
    expect(await (await get("/metrics")).text()).toContain('perigee_router_prompts{from="text"} 1');
    expect(bundledModel).toMatch(/pocket$/);
  });
});

describe("what operators see", () => {
  const none: StatusCounts = {
    ...{ asked: 0, answered: 0, text: 0, ceilingTokens: 0, announcing: 2, changes: 0 },
    unannounced: new Map([["a", 7]]),
  };

  test("[CL93] an index that never answers, and prompts without tokens, are said", () => {
    const silent = { ...none, asked: 50, ceilingTokens: 1000 };
    expect(problemsOf(none, silent)).toEqual([
      expect.stringContaining("known nothing of 50 prompts"),
    ]);
    expect(problemsOf(none, { ...silent, answered: 1 })).toEqual([]);
    expect(problemsOf(none, { ...silent, ceilingTokens: 0 })).toEqual([]);
    const unannounced = new Map([["a", 40]]);
    expect(problemsOf(none, { ...none, unannounced })).toEqual([
      expect.stringMatching(/^worker a has announced none of the blocks of 33 prompts/),
    ]);
    expect(problemsOf({ ...none, unannounced }, { ...none, unannounced })).toEqual([]);
    expect(problemsOf(none, { ...none, text: 30 })).toEqual([expect.stringContaining("--model")]);
  });

  test("[CL93] the rate of hits and its ceiling count tokens that the worker had", async () => {
    const { client, get } = await routeToys([{}]);
    const messages = [
      { role: "user" as const, content: "the same question, asked again. ".repeat(8) },
    ];
    for (let turn = 0; turn < 3; turn++)
      await client.chat.completions.create({ ...chat, messages });
    const metrics = await (await get("/metrics")).text();
    const value = (kind: string) =>
      Number(new RegExp(`prompt_tokens_total\\{kind="${kind}"\\} (\\d+)`).exec(metrics)?.[1]);
    expect(value("cached")).toBeGreaterThan(0);
    expect(value("ceiling")).toBeGreaterThan(0);
  });

  test("[CL80] metrics of workers are one text: by worker, or summed", async () => {
    const texts = [
      ["a", '# TYPE x counter\nx{k="1"} 2\n# TYPE h histogram\nh_bucket{le="1"} 3\nh_sum 4\n'],
      [
        "b",
        '# TYPE x counter\nx{k="1"} 5\n# TYPE h histogram\nh_bucket{le="1"} 1\nh_sum 1\nbad line\n',
      ],
    ] as const;
    expect(joinedMetrics(texts, false)).toBe(
      '# TYPE x counter\nx{k="1",worker="a"} 2\nx{k="1",worker="b"} 5\n# TYPE h histogram\n' +
        'h_bucket{le="1",worker="a"} 3\nh_sum{worker="a"} 4\n' +
        'h_bucket{le="1",worker="b"} 1\nh_sum{worker="b"} 1\n',
    );
    expect(joinedMetrics(texts, true)).toBe(
      '# TYPE x counter\nx{k="1"} 7\n# TYPE h histogram\nh_bucket{le="1"} 4\nh_sum 5\n',
    );
  });

  test("[CL80] events of all workers are polled and streamed with their worker", async () => {
    const { workers, post, get } = await routeToys([{}, {}]);
    const polled = (await (await post("/kv_cache_events", {})).json()) as { worker: string }[];
    const urls = workers.map(({ server }) => server.url).sort();
    expect(polled.map(({ worker }) => worker).sort()).toEqual(urls);
    const stream = await get("/kv_cache_events/stream");
    expect(stream.headers.get("content-type")).toContain("text/event-stream");
    await stream.body?.cancel();
  });
});

describe("large prompts", () => {
  test("[CL80] three megabytes of text reach the worker unchanged", async () => {
    let length = 0;
    const url = await strangeWorker((incoming, response) => {
      incoming.on("data", (part: Buffer) => {
        length += part.length;
      });
      incoming.on("end", () => response.setHeader("content-type", "application/json").end("{}"));
    });
    const body = { ...chat, messages: [{ role: "user", content: "z".repeat(3 * 2 ** 20) }] };
    const { post } = clientsOf(await routeTo([url]));
    expect((await post("/v1/chat/completions", body)).status).toBe(200);
    expect(length).toBe(JSON.stringify(body).length);
  });
});
