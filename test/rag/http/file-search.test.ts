import { afterAll, beforeAll, expect, test } from "vitest";
import { LLM } from "#engine";
import { readEvents } from "../../support/events.ts";
import { closeRagServers, type RagServer, serveRag, textFile } from "../../support/rag-server.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeRagServers();
closeToyServers();

const facts = {
  "orlen.md": "The Orlen bridge was built in 1931. Its architect was Tamsin Vorle.",
  "kesset.md": "The Kesset bridge is 412 metres long. It was designed by Joren Hask.",
  "sarvik.md": "Sarvik has a population of 18,240. Its mayor is Ilka Brand.",
};
let llm: LLM;
beforeAll(async () => {
  llm = await LLM.load();
});
afterAll(() => llm.close());

/** A server whose store has the facts; ids of files by name. */
async function withFacts(server: RagServer) {
  const { client } = server;
  const store = await client.vectorStores.create({ name: "facts" });
  const ids: Record<string, string> = {};
  for (const [name, text] of Object.entries(facts)) {
    const file = await client.files.create({ file: textFile(name, text), purpose: "assistants" });
    ids[file.id] = name;
    const attributes = { place: name.replace(".md", "") };
    const options = { pollIntervalMs: 10 };
    const body = { file_id: file.id, attributes };
    await client.vectorStores.files.createAndPoll(store.id, body, options);
  }
  return { storeId: store.id, ids };
}

/** A chat as the client sends it; the tool is an extension of ours. */
function chat(storeIds: readonly string[], question: string, more: object = {}): never {
  const tool = { type: "file_search", vector_store_ids: storeIds, ...more };
  const messages = [{ role: "user", content: question }];
  return { model: llm.info.name, messages, tools: [tool] } as never;
}

test("[RG110] a chat with file_search answers from a vector store, with citations", async () => {
  const server = await serveRag({ llm });
  const { storeId, ids } = await withFacts(server);
  const answer = await server.client.chat.completions.create(
    chat([storeId], "How long is the Kesset bridge?"),
  );
  const [choice] = answer.choices;
  expect(choice?.message.content).toContain("412");
  const [citation] = (choice?.message.annotations ?? []) as unknown as Citation[];
  expect(citation).toMatchObject({ type: "file_citation", filename: "kesset.md" });
  expect(ids[citation?.file_id ?? ""]).toBe("kesset.md");
  expect(choice?.message.content?.slice(citation?.index)).toMatch(/^\[\d+\]/);
  expect(choice?.finish_reason).toBe("stop");
  expect(answer.usage?.prompt_tokens).toBeGreaterThan(20);
  expect(answer.usage?.prompt_tokens_details?.cached_tokens).toBe(0);
  const again = await server.client.chat.completions.create(
    chat([storeId], "How long is the Kesset bridge?"),
  );
  expect(again.usage?.prompt_tokens_details?.cached_tokens).toBeGreaterThan(0);
});

interface Citation {
  readonly type: string;
  readonly file_id: string;
  readonly filename: string;
  readonly index: number;
}

test("[RG110] a stream has the same text, citations and usage", async () => {
  const server = await serveRag({ llm });
  const { storeId } = await withFacts(server);
  const body = chat([storeId], "Who designed the Kesset bridge?") as object;
  const whole = await server.client.chat.completions.create(body as never);
  const events = await readEvents(
    await server.post("/v1/chat/completions", {
      ...{ ...body, stream: true, stream_options: { include_usage: true } },
    }),
  );
  const deltas = events
    .flatMap((event) => event.choices ?? [])
    .map((choice) => (choice.delta ?? {}) as Partial<Message>);
  expect(deltas[0]).toEqual({ role: "assistant", content: "" });
  const message = whole.choices[0]?.message as unknown as Message | undefined;
  expect(deltas.map((delta) => delta.content ?? "").join("")).toBe(message?.content);
  expect(message?.annotations.length).toBeGreaterThan(0);
  expect(deltas.flatMap((delta) => delta.annotations ?? [])).toEqual(message?.annotations);
  expect(events.at(-1)).toMatchObject({
    choices: [],
    usage: { completion_tokens: expect.any(Number) },
  });
});

interface Message {
  readonly content: string;
  readonly annotations: readonly Citation[];
}

test("[RG110] filters and several stores decide what the answer is made from", async () => {
  const server = await serveRag({ llm });
  const { storeId } = await withFacts(server);
  const empty = await server.client.vectorStores.create({});
  const filters = { type: "eq", key: "place", value: "orlen" };
  const ask = async (more: object) => {
    const body = chat([empty.id, storeId], "Who was the architect of the bridge?", more);
    return (await server.client.chat.completions.create(body)).choices[0]?.message.content;
  };
  expect(await ask({ filters })).toContain("Tamsin Vorle");
  expect(await ask({ filters: { ...filters, value: "nowhere" } })).toBe("The passages do not say.");
});

test("[RG111] the conversation before a question gives it its meaning", async () => {
  const server = await serveRag({ llm });
  const { storeId } = await withFacts(server);
  const { messages: _, ...body } = chat([storeId], "") as { messages: unknown };
  const answer = await server.post("/v1/chat/completions", {
    ...body,
    messages: [
      { role: "user", content: "What is the population of Sarvik?" },
      { role: "assistant", content: "18,240 [1]" },
      { role: "user", content: [{ type: "text", text: "Who is its mayor?" }] },
    ],
  });
  const { choices } = (await answer.json()) as { choices: { message: Message }[] };
  expect(choices[0]?.message.content).toContain("Ilka Brand");
});

test.for([
  ["logprobs", { logprobs: true }, "logprobs"],
  ["n", { n: 2 }, "n"],
  ["stop", { stop: ["a"] }, "stop"],
  [
    "a second tool",
    { tools: [{ type: "file_search", vector_store_ids: ["a"] }, function_()] },
    "tools",
  ],
  ["no question", { messages: [{ role: "system", content: "Hi" }] }, "messages"],
  ["no stores", { tools: [{ type: "file_search", vector_store_ids: [] }] }, "vector_store_ids"],
  ["a wrong filter", { tools: [search({ filters: { type: "like" } })] }, "filters"],
  ["a field of no tool", { tools: [search({ stores: 1 })] }, "stores"],
] as const)("[RG112] a request with %s is refused by name", async ([, fields, name]) => {
  const server = await serveRag();
  const body = { messages: [{ role: "user", content: "Hi" }], tools: [search({})], ...fields };
  const answer = await server.post("/v1/chat/completions", body);
  expect(answer.status).toBe(400);
  expect(((await answer.json()) as Failure).error.message).toContain(name);
});

interface Failure {
  readonly error: { readonly message: string; readonly param: string | null };
}

function search(more: object) {
  return { type: "file_search", vector_store_ids: ["vs_1"], ...more };
}

function function_() {
  return { type: "function", function: { name: "f" } };
}

test("[RG112] a server without a store says what to start it with", async () => {
  const { post } = await serveToy();
  const body = { messages: [{ role: "user", content: "Hi" }], tools: [search({})] };
  const answer = await post("/v1/chat/completions", body);
  expect(answer.status).toBe(400);
  expect(((await answer.json()) as Failure).error).toMatchObject({
    ...{ message: expect.stringContaining("--rag-store"), param: "tools" },
  });
  const shown = await post("/v1/chat/completions/render", body);
  expect(shown.status).toBe(400);
  expect(await post("/v1/chat/completions", { ...body, tool_choice: "none" })).toMatchObject({
    status: 200,
  });
});

test("[RG112] a store that is not there is a 404, in streams, too", async () => {
  const server = await serveRag();
  const body = { messages: [{ role: "user", content: "Hi" }], tools: [search({})], stream: true };
  const answer = await server.post("/v1/chat/completions", body);
  expect(answer.status).toBe(404);
});

test("[RG113] answering threads have chats with file_search answered by the main thread", async () => {
  const server = await serveRag({ llm, server: { answeringThreads: 1 } });
  const { storeId } = await withFacts(server);
  const { client } = server;
  const asked = chat([storeId], "How long is the Kesset bridge?");
  const answer = await client.chat.completions.create(asked);
  expect(answer.choices[0]?.message.content).toContain("412");
  const plain = { model: llm.info.name, messages: [{ role: "user" as const, content: "Hi" }] };
  expect((await client.chat.completions.create({ ...plain, max_tokens: 3 })).choices).toHaveLength(
    1,
  );
  const stream = await client.chat.completions.create({
    ...{ ...(asked as object), stream: true },
  } as never);
  let text = "";
  for await (const chunk of stream as unknown as AsyncIterable<{
    choices: { delta: { content?: string } }[];
  }>) {
    text += chunk.choices[0]?.delta.content ?? "";
  }
  expect(text).toBe(answer.choices[0]?.message.content);
  const metrics = await (await fetch(`${server.url}/metrics`)).text();
  const counted = /http_requests_total\{[^}]*chat\/completions"[^}]*\} (\d+)/.exec(metrics)?.[1];
  expect(counted).toBe("3");
});
