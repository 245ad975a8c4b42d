import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { clientsOf, closeRouters, routeTo, routeToys } from "../../support/router-fleet.ts";
import { closeStrangeWorkers, strangeWorker } from "../../support/strange-worker.ts";
import { closeToyServers } from "../../support/toy-server.ts";

closeRouters();
closeToyServers();
closeStrangeWorkers();

const chat = { messages: [{ role: "user" as const, content: "hello there" }], model: "toy" };

/** Without what differs from request to request. */
function plain(text: string): string {
  return text.replace(/"id":"[^"]*"/g, "").replace(/"created":\d+/g, "");
}

describe("what clients get", () => {
  const BODIES: readonly (readonly [string, object])[] = [
    ["/v1/chat/completions", chat],
    ["/v1/chat/completions", { ...chat, stream: true, stream_options: { include_usage: true } }],
    ["/v1/chat/completions", { ...chat, n: 3, stream: true, logprobs: true, top_logprobs: 2 }],
    ["/v1/completions", { prompt: ["one", "two"], n: 2, stream: true, echo: true }],
    ["/v1/completions", { prompt: "été 日本 \ud83d\ude00", stream: true }],
    ["/v1/completions", { prompt: [104, 105], max_tokens: 2 }],
    ["/v1/embeddings", { input: ["a", "b"] }],
    ["/tokenize", { prompt: "hello" }],
    ["/detokenize", { tokens: [104, 105] }],
    ["/v1/chat/completions", { ...chat, temperature: -1 }],
    ["/v1/chat/completions", {}],
  ];

  test.each(BODIES)("[CL80] %s %j is answered as by its worker", async (path, body) => {
    const { workers, post } = await routeToys([{}]);
    const [worker] = workers;
    const direct = await worker?.post(path, body);
    const routed = await post(path, body);
    expect(routed.status).toBe(direct?.status);
    expect(routed.headers.get("content-type")).toBe(direct?.headers.get("content-type"));
    const [wanted = "", got] = [plain((await direct?.text()) ?? ""), plain(await routed.text())];
    // The toy's cache has the prompt by now.
    const uncached = (text: string) => text.replace(/"cached_tokens":\d+/g, "");
    expect(uncached(got)).toBe(uncached(wanted));
  });

  test("[CL80] models are the union of those of the workers that are ready", async () => {
    const { get } = await routeToys([{ defaultName: "a" }, { defaultName: "b" }]);
    const { data } = (await (await get("/v1/models")).json()) as { data: { id: string }[] };
    expect(data.map(({ id }) => id).sort()).toEqual(["a", "b"]);
  });

  test("[CL80] a request goes to a worker that serves its model", async () => {
    const { workers, client } = await routeToys([{ defaultName: "a" }, { defaultName: "b" }]);
    for (let turn = 0; turn < 4; turn++) {
      await client.chat.completions.create({ ...chat, model: "b" });
    }
    expect(workers.map(({ model }) => model.requests.length)).toEqual([0, 4]);
    await expect(client.chat.completions.create({ ...chat, model: "c" })).rejects.toThrow(
      "The model `c` does not exist.",
    );
  });
});

describe("workers that fail", () => {
  test("[CL81] a request that a worker fails goes to another one, once per worker", async () => {
    let asked = 0;
    const broken = await strangeWorker((_request, response) => {
      asked++;
      response.writeHead(500).end('{"error":{"message":"broken"}}');
    });
    const { workers } = await routeToys([{}]);
    const router = await routeTo([broken, workers[0]?.server.url ?? ""], {
      breakerFailures: 1000,
    });
    const { client, get } = clientsOf(router);
    for (let turn = 0; turn < 20; turn++) {
      const { choices } = await client.chat.completions.create(chat);
      expect(choices[0]?.message.content).toBe("HELLO THERE");
    }
    expect(asked).toBeGreaterThan(0);
    expect(asked).toBeLessThanOrEqual(20);
    expect(router.openReservations).toBe(0);
    expect((await get("/health")).status).toBe(200);
  });

  test("[CL82] a worker that was too busy to read a request (408) is no client's fault", async () => {
    let asked = 0;
    const busy = await strangeWorker((_request, response) => {
      asked++;
      response.writeHead(408).end('{"error":{"message":"it was not sent in time"}}');
    });
    const { workers } = await routeToys([{}]);
    const urls = [busy, workers[0]?.server.url ?? ""];
    const { post } = clientsOf(await routeTo(urls, { policy: "round-robin" }));
    for (let turn = 0; turn < 4; turn++) {
      expect((await post("/v1/chat/completions", chat)).status).toBe(200);
    }
    expect(asked).toBeGreaterThan(0);
    const { post: alone } = clientsOf(await routeTo([busy]));
    expect((await alone("/v1/chat/completions", chat)).status).toBe(502);
  });

  test("[CL149] a request that fails everywhere takes no worker from others", async () => {
    const poisoned: Parameters<typeof strangeWorker>[0] = (request, response) => {
      let text = "";
      request.on("data", (bytes) => {
        text += bytes;
      });
      request.on("end", () => {
        if (text.includes("poison")) response.writeHead(500).end('{"error":{"message":"broken"}}');
        else response.end("{}");
      });
    };
    const urls = await Promise.all([strangeWorker(poisoned), strangeWorker(poisoned)]);
    const { post } = clientsOf(await routeTo(urls, { breakerFailures: 2, breakerOpenMs: 60_000 }));
    for (let turn = 0; turn < 10; turn++) {
      const messages = [{ role: "user", content: `poison ${turn}` }];
      expect((await post("/v1/chat/completions", { ...chat, messages })).status).toBe(500);
    }
    expect((await post("/v1/chat/completions", chat)).status).toBe(200);
  });

  test("[CL149] a worker that fails where another one succeeds gets no requests for a while", async () => {
    let asked = 0;
    const broken = await strangeWorker((_request, response) => {
      asked++;
      response.writeHead(500).end("{}");
    });
    const well = await strangeWorker((_request, response) => response.end("{}"));
    const limits = { breakerFailures: 3, breakerOpenMs: 2000, policy: "round-robin" } as const;
    const { post } = clientsOf(await routeTo([broken, well], limits));
    const askOften = async () => {
      for (let turn = 0; turn < 20; turn++) {
        expect((await post("/v1/chat/completions", chat)).status).toBe(200);
      }
    };
    await askOften();
    expect(asked).toBe(3);
    // Then one request tries it, and it is left alone again.
    await sleep(2100);
    await askOften();
    expect(asked).toBe(4);
  });

  test("[CL81] the last worker's own words are the answer where all fail", async () => {
    const broken = await strangeWorker((_request, response) => {
      response.writeHead(503, { "content-type": "application/json", "retry-after": "7" });
      response.end('{"error":{"message":"no room"}}');
    });
    const { post } = clientsOf(await routeTo([broken]));
    const answer = await post("/v1/chat/completions", chat);
    expect(answer.status).toBe(503);
    expect(answer.headers.get("retry-after")).toBe("7");
    expect(await answer.json()).toEqual({ error: { message: "no room" } });
  });

  test("[CL84] a stream goes on at another worker: the same tokens, usage counted once", async () => {
    const text = "a long answer, which takes a while. ".repeat(10);
    const fleet = await routeToys([
      { reply: () => text, msPerToken: 2 },
      { reply: () => text, msPerToken: 2 },
    ]);
    const stream = await fleet.client.chat.completions.create({
      ...chat,
      stream: true,
      stream_options: { include_usage: true },
    });
    let said = "";
    let killed = false;
    let tokens: number | undefined;
    for await (const chunk of stream) {
      said += chunk.choices[0]?.delta.content ?? "";
      tokens = chunk.usage?.completion_tokens ?? tokens;
      if (killed || said.length < 50) continue;
      killed = true;
      const busy = fleet.workers.find(({ model }) => model.runningCount > 0);
      await busy?.server.close();
    }
    expect(said).toBe(text);
    expect(tokens).toBe(text.length + 1);
    expect(fleet.router.openReservations).toBe(0);
  });
});
