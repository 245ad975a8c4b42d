import { Ollama } from "ollama";
import { describe, expect, test } from "vitest";
import { lineReader } from "../../../src/cluster/router/stream-reader.ts";
import { json } from "../../support/json.ts";
import { closeRouters, routeTo, routeToys } from "../../support/router-fleet.ts";
import { closeStrangeWorkers, strangeWorker } from "../../support/strange-worker.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeRouters();
closeToyServers();
closeStrangeWorkers();

const messages = [{ role: "user", content: "hello there" }];
const request = { model: "toy", messages };

function clientOf({ url }: { readonly url: string }): Ollama {
  return new Ollama({ host: url });
}

async function collected<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = [];
  for await (const item of items) list.push(item);
  return list;
}

describe("Ollama's API through a router, by the official client", () => {
  test("[CL253] chats, whole and streamed, with statistics in the last line", async () => {
    const { router, workers } = await routeToys([{}, {}], { policy: "round-robin" });
    const client = clientOf(router);
    for (let turn = 0; turn < 2; turn++) {
      const whole = await client.chat({ ...request, options: { temperature: 0 } });
      expect(whole).toMatchObject({ done_reason: "stop", message: { content: "HELLO THERE" } });
      const lines = await collected(await client.chat({ ...request, stream: true }));
      expect(lines.map(({ message }) => message.content).join("")).toBe("HELLO THERE");
      expect(lines.length).toBeGreaterThan(5);
      expect(lines.at(-1)).toMatchObject({ done: true, eval_count: "HELLO THERE".length + 1 });
    }
    expect(workers.map(({ model }) => model.requests.length)).toEqual([2, 2]);
  });

  test("[CL253] an answer is a stream unless it is asked for at once", async () => {
    const { post } = await routeToys([{}]);
    // The client adds `stream` to the request that it is given.
    const answer = await post("/api/chat", { model: "toy", messages });
    expect(answer.headers.get("content-type")).toBe("application/x-ndjson");
    const lines = (await answer.text()).trimEnd().split("\n");
    expect(lines.length).toBeGreaterThan(5);
    for (const line of lines) expect(JSON.parse(line)).toHaveProperty("done");
  });

  test("[CL253] lines come as the worker makes them, and silence is not broken", async () => {
    const { router, workers } = await routeToys([{ msPerToken: 30 }], { streamKeepAliveMs: 10 });
    let lines = 0;
    for await (const line of await clientOf(router).chat({ ...request, stream: true })) {
      if (lines++ === 0) expect(workers[0]?.model.runningCount).toBe(1);
      expect(line).toHaveProperty("done");
    }
    expect(lines).toBe("HELLO THERE".length + 1);
  });

  test("[CL253] prompts, vectors, tools and formats", async () => {
    const call = '<tool_call>{"name": "get_weather", "arguments": {"done": true}}</tool_call>';
    const reply = (prompt: string) => (prompt.includes("weather") ? call : "Mild.");
    const { router } = await routeToys([{ reply }, { reply }], { policy: "round-robin" });
    const client = clientOf(router);
    const told = await client.generate({ model: "toy", prompt: "hello", system: "be kind" });
    expect(told).toMatchObject({ response: "Mild.", done: true });
    const pieces = await collected(
      await client.generate({ model: "toy", prompt: "hello", stream: true }),
    );
    expect(pieces.map(({ response }) => response).join("")).toBe("Mild.");
    const { embeddings } = await client.embed({ model: "toy", input: ["a", "b"] });
    expect(embeddings.map(({ length }) => length)).toEqual([8, 8]);
    expect((await client.embeddings({ model: "toy", prompt: "a" })).embedding).toHaveLength(8);
    const tool = { type: "function", function: { name: "get_weather", parameters: {} } };
    const asked = [{ role: "user", content: "weather?" }];
    const lines = await collected(
      await client.chat({ model: "toy", messages: asked, tools: [tool], stream: true }),
    );
    // Arguments that look like the end of a stream are none.
    const calls = lines.flatMap(({ message }) => message.tool_calls ?? []);
    expect(calls).toMatchObject([{ function: { name: "get_weather", arguments: { done: true } } }]);
    expect(lines.at(-1)?.done_reason).toBe("stop");
    const formed = await client.chat({ ...request, format: "json" });
    expect(formed.message.content).toBe("{}");
  });

  test("[CL253] what clients ask first: models, their cards, a version", async () => {
    const first = await serveToy({}, { servedModelName: ["a", "b"] });
    const [second, third] = [await serveToy(), await serveToy({}, { servedModelName: ["a"] })];
    const urls = [first, second, third].map(({ server }) => server.url);
    const router = await routeTo(urls);
    const client = clientOf(router);
    const { models } = await client.list();
    expect(models.map(({ name }) => name).sort()).toEqual(["a", "b", "toy"]);
    expect(models[0]?.details).toMatchObject({ family: "toy", format: "safetensors" });
    expect((await client.ps()).models).toHaveLength(3);
    expect((await client.show({ model: "b" })).model_info).toMatchObject({
      "toy.context_length": 4096,
    });
    const named = await fetch(`${router.url}/api/show`, {
      ...{ method: "POST", headers: { "content-type": "application/json" } },
      body: JSON.stringify({ name: "toy:latest" }),
    });
    expect(named.status).toBe(200);
    const { version } = await json(fetch(`${router.url}/api/version`));
    expect(version).toMatch(/^0\.\d+\.\d+$/);
    // The one that has both names is gone: the others say what they have.
    await first.server.close();
    const names = async () => (await client.list()).models.map(({ name }) => name).sort();
    await expect.poll(names, { timeout: 10_000, interval: 100 }).toEqual(["a", "toy"]);
  });

  test("[CL253] however many clients ask for models, workers are asked once a second", async () => {
    const { router, workers } = await routeToys([{}]);
    const client = clientOf(router);
    const metric = async () => {
      const text = await (await workers[0]?.get("/metrics"))?.text();
      return Number(/http_requests_total\{[^}]*"\/api\/tags"[^}]*\} (\d+)/.exec(text ?? "")?.[1]);
    };
    await Promise.all(Array.from({ length: 200 }, () => client.list()));
    const asked = await metric();
    expect(asked).toBeGreaterThan(0);
    expect(asked).toBeLessThan(5);
  });

  test("[CL253] NAME:latest is NAME; other names, and managing, are refused in its form", async () => {
    const { router, post } = await routeToys([{}]);
    const client = clientOf(router);
    expect((await client.chat({ ...request, model: "toy:latest" })).model).toBe("toy:latest");
    const failure = await client.chat({ ...request, model: "gpt" }).catch((error) => error);
    expect(failure).toMatchObject({ status_code: 404, error: expect.stringContaining("gpt") });
    expect(Object.keys(await json(post("/api/chat", { ...request, model: "gpt" })))).toEqual([
      "error",
    ]);
    await expect(client.pull({ model: "toy" })).rejects.toThrow(/perigee serve MODEL/);
    const wrong = client.chat({ ...request, options: { num_ctx: 131_072 } });
    await expect(wrong).rejects.toThrow(/--context-tokens-max 131072/);
  });

  test.each(["kv", "prefix-hash"] as const)(
    "[CL253] a conversation goes on where its beginning is cached: %s",
    async (policy) => {
      const { router, workers } = await routeToys([{}, {}, {}], { policy });
      const client = clientOf(router);
      const system = "You are an agent that answers with great care. ".repeat(8);
      const said = [{ role: "system", content: system }];
      for (let turn = 0; turn < 4; turn++) {
        said.push({ role: "user", content: `step ${turn}` });
        await client.chat({ model: "toy", messages: said });
        said.push({ role: "assistant", content: "done" });
        await client.generate({ model: "toy", prompt: `step ${turn}`, system });
      }
      const counts = workers.map(({ model }) => model.requests.length).sort();
      expect(counts).toEqual([0, 0, 8]);
    },
  );
});

describe("failures in Ollama's API", () => {
  test("[CL254] a worker that is dead costs no request", async () => {
    const { router, workers } = await routeToys([{}, {}], { policy: "round-robin" });
    const client = clientOf(router);
    await workers[0]?.server.close();
    for (let turn = 0; turn < 4; turn++) {
      const whole = await client.chat(request);
      expect(whole.message.content).toBe("HELLO THERE");
      const lines = await collected(await client.generate({ ...prompt, stream: true }));
      expect(lines.map(({ response }) => response).join("")).toBe("HELLO THERE");
    }
    expect(workers[1]?.model.requests).toHaveLength(8);
  });

  test("[CL254] a worker that dies within a stream ends it with a line that says so", async () => {
    const { router, workers } = await routeToys([{ msPerToken: 10, reply: () => "a".repeat(900) }]);
    const stream = await clientOf(router).chat({ ...request, stream: true });
    let text = "";
    const reading = (async () => {
      for await (const { message } of stream) {
        if (text === "") void workers[0]?.server.close();
        text += message.content;
      }
    })();
    await expect(reading).rejects.toThrow(/Cannot|shutting down|worker/);
    expect(text).toMatch(/^a+$/);
    await expect.poll(() => workers[0]?.model.runningCount).toBe(0);
  });

  test("[CL254] a stream that breaks off is told from one that ended", async () => {
    const { model, server } = await serveToy({ msPerToken: 5, reply: () => "a".repeat(900) });
    const { url } = await routeTo([server.url]);
    const answer = await fetch(`${url}/api/chat`, {
      ...{ method: "POST", headers: { "content-type": "application/json" } },
      body: JSON.stringify({ model: "toy", messages }),
    });
    const reader = answer.body?.getReader();
    await reader?.read();
    model.die("power");
    await server.close();
    let text = "";
    const decoder = new TextDecoder();
    for (;;) {
      const piece = await reader?.read();
      if (piece === undefined || piece.done) break;
      text += decoder.decode(piece.value);
    }
    expect(text).not.toMatch(/^\n|\n\n/);
    const lines = text.trimEnd().split("\n");
    expect(Object.keys(JSON.parse(lines.at(-1) ?? ""))).toEqual(["error"]);
  });

  test("[CL254] a client that goes away ends its request at the worker", async () => {
    const { router, workers } = await routeToys([{ msPerToken: 5, reply: () => "a".repeat(900) }]);
    const stream = await clientOf(router).chat({ ...request, stream: true });
    for await (const _ of stream) break;
    stream.abort();
    await expect.poll(() => workers[0]?.model.abortedCount).toBe(1);
  });

  test("[CL254] workers of other engines are not asked; alone they are an error", async () => {
    let asked = 0;
    const other = await strangeWorker((_incoming, response) => {
      asked += 1;
      response.writeHead(404).end("{}");
    });
    const { server } = await serveToy();
    const both = await routeTo([other, server.url], { policy: "round-robin" });
    for (let turn = 0; turn < 3; turn++) {
      expect((await clientOf(both).chat(request)).message.content).toBe("HELLO THERE");
    }
    const alone = await routeTo([other]);
    const failure = await clientOf(alone)
      .chat(request)
      .catch((error) => error);
    expect(failure).toMatchObject({ status_code: 501 });
    expect(failure.message).toContain("/v1/chat/completions");
    expect(asked).toBe(0);
  });

  test("[CL254] a stream is over at its last line alone, in pieces of any size", () => {
    const first =
      '{"message":{"tool_calls":[{"function":{"arguments":{"done":true}}}]},"done":false}\n';
    const said = '{"message":{"content":"{\\"error\\":\\"done\\": true"},"done":false}\n';
    const last = '{"message":{"content":""},"done":true,"done_reason":"stop"}\n';
    for (const size of [1, 7, 1000]) {
      const reader = lineReader("ollama");
      const feed = (text: string) => {
        let tokens = 0;
        for (let at = 0; at < text.length; at += size) {
          tokens += reader.read(Buffer.from(text.slice(at, at + size))).tokens;
        }
        return tokens;
      };
      expect([feed(first + said), reader.isComplete]).toEqual([2, false]);
      expect([feed(last), reader.isComplete]).toEqual([0, true]);
    }
    const failed = lineReader("ollama");
    failed.read(Buffer.from('{"error":"the server failed"}\n'));
    expect(failed.isComplete).toBe(true);
  });
});

const prompt = { model: "toy", prompt: "hello there" };
