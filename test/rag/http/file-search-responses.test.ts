import type OpenAI from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LLM } from "#engine";
import { closeRagServers, type RagServer, serveRag, textFile } from "../../support/rag-server.ts";
import { responseEvents } from "../../support/response-events.ts";

closeRagServers();

const facts = {
  "orlen.md": "The Orlen bridge was built in 1931. Its architect was Tamsin Vorle.",
  "kesset.md": "The Kesset bridge is 412 metres long. It was designed by Joren Hask.",
};
let llm: LLM;
beforeAll(async () => {
  llm = await LLM.load();
});
afterAll(() => llm.close());

/** A request that is answered from a store of the facts. */
async function asking({ client }: RagServer, question: string, more: object = {}) {
  const store = await client.vectorStores.create({ name: "facts" });
  for (const [name, text] of Object.entries(facts)) {
    const options = { pollIntervalMs: 10 };
    await client.vectorStores.files.uploadAndPoll(store.id, textFile(name, text), options);
  }
  const tool = { type: "file_search" as const, vector_store_ids: [store.id], ...more };
  return { model: llm.info.name, input: question, tools: [tool] };
}

function messageOf({ output }: OpenAI.Responses.Response) {
  const found = output.find((item) => item.type === "message");
  const [part] = found?.content ?? [];
  if (part?.type !== "output_text") throw new Error("No text");
  return part;
}

test("[RG110] a response is found in a vector store, with citations as annotations", async () => {
  const server = await serveRag({ llm });
  const request = await asking(server, "How long is the Kesset bridge?");
  const response = await server.client.responses.create({
    ...{ ...request, include: ["file_search_call.results"] },
  });
  const [searched] = response.output;
  expect(searched).toMatchObject({
    ...{ type: "file_search_call", status: "completed", queries: [request.input] },
  });
  if (searched?.type !== "file_search_call") throw new Error("No search");
  expect(searched.results?.[0]).toMatchObject({
    ...{ filename: "kesset.md", text: expect.stringContaining("412"), score: expect.any(Number) },
  });
  const { text, annotations } = messageOf(response);
  expect(text).toContain("412");
  expect(annotations[0]).toMatchObject({ type: "file_citation", filename: "kesset.md" });
  const [citation] = annotations;
  const at = citation?.type === "file_citation" ? citation.index : -1;
  expect(text.slice(at)).toMatch(/^\[\d+\]/);
  expect(response.usage?.input_tokens).toBeGreaterThan(20);
  const bare = await server.client.responses.create(request);
  expect(bare.output[0]).toMatchObject({ results: null });
});

test("[RG110] its stream tells of the search, the text and each citation", async () => {
  const server = await serveRag({ llm });
  const request = await asking(server, "How long is the Kesset bridge?");
  const whole = await server.client.responses.create(request);
  const events = await responseEvents(
    await server.post("/v1/responses", { ...request, stream: true }),
  );
  const types = events.map(({ type }) => type.replace("response.", ""));
  expect(types.slice(0, 7)).toEqual([
    ...["created", "in_progress", "output_item.added", "file_search_call.in_progress"],
    ...["file_search_call.searching", "file_search_call.completed", "output_item.done"],
  ]);
  expect(types).toContain("output_text.annotation.added");
  const told = events.at(-1)?.response;
  if (told === undefined) throw new Error("No response");
  expect(messageOf(told)).toEqual(messageOf(whole));
  expect(await server.client.responses.retrieve(told.id)).toMatchObject({ status: "completed" });
});

test("[RG111] a response that continues another one asks with what was said", async () => {
  const server = await serveRag({ llm });
  const request = await asking(server, "Who was the architect of the Orlen bridge?");
  const first = await server.client.responses.create(request);
  expect(first.output_text).toContain("Tamsin Vorle");
  const second = await server.client.responses.create({
    ...{ ...request, input: "When was it built?", previous_response_id: first.id },
  });
  expect(second.output_text).toContain("1931");
});

test("[RG112] a store that is not there is a 404, and a field without effect is named", async () => {
  const server = await serveRag({ llm });
  const tools = [{ type: "file_search", vector_store_ids: ["vs_1"] }];
  const body = { input: "Hi", tools };
  expect((await server.post("/v1/responses", body)).status).toBe(404);
  expect((await server.post("/v1/responses", { ...body, stream: true })).status).toBe(404);
  const refused = await server.post("/v1/responses", { ...body, top_k: 5 });
  expect(refused.status).toBe(400);
  expect(await refused.text()).toContain("top_k");
});

test("[RG113] answering threads have them answered by the main thread", async () => {
  const server = await serveRag({ llm, server: { answeringThreads: 1 } });
  const request = await asking(server, "How long is the Kesset bridge?");
  const response = await server.client.responses.create(request);
  expect(response.output_text).toContain("412");
  const plain = { model: llm.info.name, input: "Hi", max_output_tokens: 3 };
  const next = { ...plain, previous_response_id: response.id };
  expect((await server.client.responses.create(next)).previous_response_id).toBe(response.id);
});
