import Anthropic from "@anthropic-ai/sdk";
import type OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { ChatTool } from "#engine";
import { chatEvents, chatResult } from "../../src/engine/caller/chat-rounds.ts";
import { ToyModel } from "../support/toy-model.ts";
import { closeToyServers, serveToy } from "../support/toy-server.ts";
import { clientModule, missing } from "./installed.ts";

closeToyServers();

const reason = missing("@modelcontextprotocol/sdk");
const sdk = "@modelcontextprotocol/sdk";

/** A server with one tool, and a client that is connected to it, in this process. */
async function connected() {
  const { McpServer } = await clientModule(`${sdk}/server/mcp.js`);
  const { Client } = await clientModule(`${sdk}/client/index.js`);
  const { InMemoryTransport } = await clientModule(`${sdk}/inMemory.js`);
  const server = new McpServer({ name: "weather", version: "1.0.0" });
  const inputSchema = { city: z.string() };
  const about = { description: "The weather of a city.", inputSchema };
  server.registerTool("get_weather", about, async ({ city }: { city: string }) => ({
    content: [{ type: "text", text: `${city}: 7 degrees` }],
  }));
  const client = new Client({ name: "test", version: "1.0.0" });
  const [here, there] = InMemoryTransport.createLinkedPair();
  await Promise.all([server.connect(there), client.connect(here)]);
  return client;
}

describe.skipIf(reason !== null)(`an MCP tool loop${reason === null ? "" : ` (${reason})`}`, () => {
  test("the model calls the server's tools by the openai client until it answers", async () => {
    const mcp = await connected();
    const call = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>';
    const { client } = await serveToy({
      reply: (prompt) => (prompt.includes("tool:") ? "It is 7 degrees." : call),
    });
    const { tools: listed } = await mcp.listTools();
    const tools: OpenAI.Chat.Completions.ChatCompletionTool[] = listed.map(
      (tool: { name: string; description: string; inputSchema: Record<string, unknown> }) => ({
        type: "function",
        function: {
          ...{ name: tool.name, description: tool.description, parameters: tool.inputSchema },
        },
      }),
    );
    expect(tools).toHaveLength(1);
    const messages: OpenAI.Chat.Completions.ChatCompletionMessageParam[] = [
      { role: "user", content: "weather in Oslo?" },
    ];
    let answer = "";
    for (let round = 0; round < 4 && answer === ""; round++) {
      const { choices } = await client.chat.completions.create({ model: "toy", messages, tools });
      const message = choices[0]?.message;
      if (message === undefined) break;
      messages.push(message);
      answer = choices[0]?.finish_reason === "stop" ? (message.content ?? "") : "";
      for (const called of message.tool_calls ?? []) {
        if (called.type !== "function") continue;
        const given = JSON.parse(called.function.arguments);
        const { content } = await mcp.callTool({ name: called.function.name, arguments: given });
        expect(content).toEqual([{ type: "text", text: "Oslo: 7 degrees" }]);
        messages.push({ role: "tool", tool_call_id: called.id, content: content[0].text });
      }
    }
    expect(answer).toBe("It is 7 degrees.");
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant"]);
    await mcp.close();
  });

  test("a chat in this process has the server's tools as its own, whose failures it is told", async () => {
    const mcp = await connected();
    const call = (city: unknown) =>
      `<tool_call>${JSON.stringify({ name: "get_weather", arguments: { city } })}</tool_call>`;
    const answers = [call(7), call("Oslo"), "It is 7 degrees."];
    let given = 0;
    const model = new ToyModel({ reply: () => answers[given++] ?? "no more" });
    const { tools: listed } = await mcp.listTools();
    const tools: ChatTool[] = listed.map(
      (tool: { name: string; description: string; inputSchema: Record<string, unknown> }) => ({
        ...{ name: tool.name, description: tool.description, parameters: tool.inputSchema },
        run: async (args: unknown) => {
          const { content } = await mcp.callTool({ name: tool.name, arguments: args });
          return content[0].text;
        },
      }),
    );
    const question = [{ role: "user", content: "weather in Oslo?" }];
    const result = await chatResult(chatEvents(model, question, { tools }));
    expect(result).toMatchObject({ text: "It is 7 degrees.", rounds: 3 });
    const told = result.messages.flatMap(({ role, content }) => (role === "tool" ? [content] : []));
    expect(told).toEqual(['{"error":"arguments.city must be string"}', "Oslo: 7 degrees"]);
    await mcp.close();
  });

  test("the model calls the server's tools by Anthropic's client until it answers", async () => {
    const mcp = await connected();
    const call = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>';
    const { server } = await serveToy({
      reply: (prompt) => (prompt.includes("tool:") ? "It is 7 degrees." : call),
    });
    const client = new Anthropic({ baseURL: server.url, apiKey: "none", maxRetries: 0 });
    const { tools: listed } = await mcp.listTools();
    const tools: Anthropic.Tool[] = listed.map(
      (tool: { name: string; description: string; inputSchema: Anthropic.Tool.InputSchema }) => ({
        ...{ name: tool.name, description: tool.description, input_schema: tool.inputSchema },
      }),
    );
    const messages: Anthropic.MessageParam[] = [{ role: "user", content: "weather in Oslo?" }];
    const ask = () => client.messages.create({ model: "toy", max_tokens: 200, messages, tools });
    let answer = await ask();
    expect(answer.stop_reason).toBe("tool_use");
    for (const block of answer.content) {
      if (block.type !== "tool_use") continue;
      const { content } = await mcp.callTool({ name: block.name, arguments: block.input });
      const result = { type: "tool_result" as const, tool_use_id: block.id };
      messages.push({ role: "assistant", content: answer.content });
      messages.push({ role: "user", content: [{ ...result, content: content[0].text }] });
    }
    answer = await ask();
    expect(answer.content).toMatchObject([{ type: "text", text: "It is 7 degrees." }]);
    await mcp.close();
  });
});
