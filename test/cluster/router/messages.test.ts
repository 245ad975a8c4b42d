import Anthropic from "@anthropic-ai/sdk";
import { expect, test } from "vitest";
import { json } from "../../support/json.ts";
import { closeRouters, routeToys } from "../../support/router-fleet.ts";
import { closeToyServers } from "../../support/toy-server.ts";

closeRouters();
closeToyServers();

const request = {
  ...{ model: "toy", max_tokens: 40 },
  messages: [{ role: "user" as const, content: "hello there" }],
};

function clientOf(url: string): Anthropic {
  return new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 });
}

test("messages go through a router as to a worker: whole, streamed, counted", async () => {
  const { router } = await routeToys([{}]);
  const client = clientOf(router.url);
  const whole = await client.messages.create(request);
  expect(whole).toMatchObject({ content: [{ text: "HELLO THERE" }], stop_reason: "end_turn" });
  const stream = client.messages.stream(request);
  const texts: string[] = [];
  stream.on("text", (text) => texts.push(text));
  expect(await stream.finalText()).toBe("HELLO THERE");
  expect(texts.length).toBeGreaterThan(1);
  const counted = await client.messages.countTokens({ model: "toy", messages: request.messages });
  expect(counted.input_tokens).toBe("user: hello there\nassistant:".length);
});

test("events come as the worker makes them, not all at the end", async () => {
  const { router, workers } = await routeToys([{ msPerToken: 30 }]);
  const stream = clientOf(router.url).messages.stream(request);
  await new Promise<void>((resolve) => stream.once("text", () => resolve()));
  expect(workers[0]?.model.runningCount).toBe(1);
  await stream.done();
});

test("a client that goes away ends its request at the worker", async () => {
  const { router, workers } = await routeToys([{ msPerToken: 10, reply: () => "a".repeat(900) }]);
  const stream = clientOf(router.url).messages.stream({ ...request, max_tokens: 900 });
  await new Promise<void>((resolve) => stream.once("text", () => resolve()));
  stream.abort();
  await expect(stream.finalMessage()).rejects.toThrow();
  await expect.poll(() => workers[0]?.model.abortedCount).toBe(1);
});

test.each(["kv", "prefix-hash"] as const)(
  "a conversation goes on where its beginning is cached, whatever header precedes it: %s",
  async (policy) => {
    const { router, workers } = await routeToys([{}, {}, {}], { policy });
    const client = clientOf(router.url);
    const messages: { role: "user" | "assistant"; content: string }[] = [];
    for (let turn = 0; turn < 6; turn++) {
      const header = `x-anthropic-billing-header: cc_version=2.1; cch=ab12${turn};`;
      const instructions = "You are an agent that answers with great care. ".repeat(8);
      messages.push({ role: "user", content: `step ${turn}` });
      const system = [
        { type: "text" as const, text: header },
        { type: "text" as const, text: instructions },
      ];
      await client.messages.create({ ...request, system, messages });
      messages.push({ role: "assistant", content: "done" });
    }
    const counts = workers.map(({ model }) => model.requests.length).sort();
    expect(counts).toEqual([0, 0, 6]);
  },
);

test("failures have Anthropic's shape, the router's own and the worker's", async () => {
  const { router, post } = await routeToys([{}]);
  const unknown = await post("/v1/messages", { ...request, model: "gpt" });
  expect(unknown.status).toBe(404);
  expect(await json(unknown)).toMatchObject({ type: "error", error: { type: "not_found_error" } });
  const wrong = await clientOf(router.url)
    .messages.create({ ...request, max_tokens: 0 })
    .catch((error) => error);
  expect(wrong).toBeInstanceOf(Anthropic.BadRequestError);
});

test("a worker that fails within a stream ends it with an error event", async () => {
  const { router } = await routeToys([{ failAfterTokens: 3 }]);
  const failure = await clientOf(router.url)
    .messages.stream(request)
    .finalMessage()
    .catch((error) => error);
  expect(failure).toBeInstanceOf(Anthropic.APIError);
  expect(failure.error).toMatchObject({ error: { type: "api_error" } });
});

test("x-api-key opens a router, too", async () => {
  const { post } = await routeToys([{}], { apiKey: ["sk-a"] });
  expect((await post("/v1/messages", request)).status).toBe(401);
  const answer = await post("/v1/messages", request, { headers: { "x-api-key": "sk-a" } });
  expect(answer.status).toBe(200);
});

test("a worker moves noise as its own operator wants, and says so", async () => {
  const { workers, post } = await routeToys([{}]);
  const system = "x-anthropic-billing-header: cch=ab12c;\nYou are an agent.";
  const chat = {
    model: "toy",
    max_tokens: 4,
    messages: [{ role: "system", content: system }, ...request.messages],
  };
  const answers = [
    await json(post("/v1/messages", { ...request, system })),
    await json(post("/v1/chat/completions", chat)),
  ];
  for (const { usage } of answers) {
    expect(usage?.perigee).toEqual({ moved_noise: ["x-anthropic-billing-header"] });
  }
  expect(workers[0]?.model.chats.at(-1)?.messages[0]?.content).toBe("You are an agent.");
});
