import { describe, expect, test } from "vitest";
import { closeToyServers, serveToy, type ToyServer } from "../support/toy-server.ts";
import { clientModule, missing } from "./installed.ts";

closeToyServers();

const reason = missing("@langchain/openai");
const call = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>';
const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather of a city.",
    parameters: {
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
    },
  },
};

async function chatModel({ server }: ToyServer) {
  const { ChatOpenAI } = await clientModule("@langchain/openai");
  const configuration = { baseURL: `${server.url}/v1` };
  return new ChatOpenAI({ model: "toy", apiKey: "none", maxRetries: 0, configuration });
}

describe.skipIf(reason !== null)(`LangChain.js${reason === null ? "" : ` (${reason})`}`, () => {
  test("invokes a chat, with usage and cached tokens", async () => {
    const toy = await serveToy({ reply: () => "Mild." });
    const model = await chatModel(toy);
    const messages = [
      ["system", "Be short."],
      ["user", "weather?"],
    ];
    await model.invoke(messages);
    const answer = await model.invoke(messages);
    expect(answer.content).toBe("Mild.");
    expect(answer.usage_metadata.output_tokens).toBe(6);
    expect(answer.usage_metadata.input_token_details.cache_read).toBeGreaterThanOrEqual(16);
  });

  test("streams a chat", async () => {
    const model = await chatModel(await serveToy({ reply: () => "Mild and dry." }));
    let text = "";
    let chunks = 0;
    for await (const chunk of await model.stream("weather?")) {
      text += chunk.content;
      chunks += 1;
    }
    expect(text).toBe("Mild and dry.");
    expect(chunks).toBeGreaterThan(5);
  });

  test("calls tools, whole and streamed, and sends results back", async () => {
    const toy = await serveToy({
      reply: (prompt) => (prompt.includes("tool:") ? "7 degrees." : call),
    });
    const model = (await chatModel(toy)).bindTools([weather]);
    const answer = await model.invoke("weather?");
    expect(answer.tool_calls).toMatchObject([{ name: "get_weather", args: { city: "Oslo" } }]);
    let streamed = null;
    for await (const chunk of await model.stream("weather?")) {
      streamed = streamed === null ? chunk : streamed.concat(chunk);
    }
    expect(streamed.tool_calls).toMatchObject([{ name: "get_weather", args: { city: "Oslo" } }]);
    const { HumanMessage, ToolMessage } = await clientModule("@langchain/core/messages");
    const result = new ToolMessage({ content: "7", tool_call_id: answer.tool_calls[0].id });
    const end = await model.invoke([new HumanMessage("weather?"), answer, result]);
    expect(end.content).toBe("7 degrees.");
  });

  test("forces a named tool", async () => {
    const toy = await serveToy();
    const model = (await chatModel(toy)).bindTools([weather], { tool_choice: "get_weather" });
    const answer = await model.invoke("weather?");
    expect(answer.tool_calls).toMatchObject([{ name: "get_weather", args: { city: "word" } }]);
  });

  test("makes structured output by JSON schema", async () => {
    const toy = await serveToy();
    const schema = {
      ...{ title: "weather", type: "object", required: ["city"] },
      properties: { city: { type: "string" } },
    };
    const options = { method: "jsonSchema", name: "weather" };
    const model = (await chatModel(toy)).withStructuredOutput(schema, options);
    expect(await model.invoke("weather?")).toEqual({ city: "word" });
  });

  test("goes on with a kept response by OpenAI's Responses", async () => {
    const toy = await serveToy();
    const { ChatOpenAI } = await clientModule("@langchain/openai");
    const configuration = { baseURL: `${toy.server.url}/v1` };
    const own = { model: "toy", apiKey: "none", maxRetries: 0, useResponsesApi: true };
    const model = new ChatOpenAI({ ...own, configuration });
    const first = await model.invoke("hello there");
    expect(first.text).toBe("HELLO THERE");
    const options = { previous_response_id: first.response_metadata.id };
    const second = await model.invoke("and now", options);
    expect(second.text).toBe("AND NOW");
    expect(toy.model.chats[1]?.messages.map(({ role }) => role)).toEqual([
      ...["user", "assistant", "user"],
    ]);
  });

  test("embeds texts", async () => {
    const { server } = await serveToy();
    const { OpenAIEmbeddings } = await clientModule("@langchain/openai");
    const configuration = { baseURL: `${server.url}/v1` };
    const embeddings = new OpenAIEmbeddings({ model: "toy", apiKey: "none", configuration });
    const vectors = await embeddings.embedDocuments(["a cache", "a mutex"]);
    expect(vectors.map((vector: number[]) => vector.length)).toEqual([8, 8]);
    expect(vectors[0]).not.toEqual(vectors[1]);
  });
});
