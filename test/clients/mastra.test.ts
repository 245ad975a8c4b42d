import { describe, expect, test } from "vitest";
import { z } from "zod";
import { closeToyServers, serveToy, type ToyServer } from "../support/toy-server.ts";
import { clientModule, missing } from "./installed.ts";

closeToyServers();

const reason = missing("@mastra/core");

async function agentOf({ server }: ToyServer, tools: object = {}) {
  const { Agent } = await clientModule("@mastra/core/agent");
  const model = { id: "perigee/toy", url: `${server.url}/v1`, apiKey: "none" };
  return new Agent({ id: "a", name: "a", instructions: "Be short.", model, tools });
}

describe.skipIf(reason !== null)(`Mastra${reason === null ? "" : ` (${reason})`}`, () => {
  test("an agent generates, whole and streamed", async () => {
    const agent = await agentOf(await serveToy({ reply: () => "Mild." }));
    expect((await agent.generate("weather?")).text).toBe("Mild.");
    const stream = await agent.stream("weather?");
    let text = "";
    for await (const part of stream.textStream) text += part;
    expect(text).toBe("Mild.");
  });

  test("an agent makes an object that fits its schema", async () => {
    const agent = await agentOf(await serveToy());
    const schema = z.object({ city: z.string() });
    const result = await agent.generate("weather?", { structuredOutput: { schema } });
    expect(result.object).toEqual({ city: "word" });
  });

  test("an agent calls its tools until it answers", async () => {
    const { createTool } = await clientModule("@mastra/core/tools");
    const call = '<tool_call>{"name": "getWeather", "arguments": {"city": "Oslo"}}</tool_call>';
    const toy = await serveToy({
      reply: (prompt) => (prompt.includes("tool:") ? "7 degrees." : call),
    });
    const getWeather = createTool({
      ...{ id: "getWeather", description: "The weather of a city." },
      inputSchema: z.object({ city: z.string() }),
      execute: async () => ({ degrees: 7 }),
    });
    const agent = await agentOf(toy, { getWeather });
    const result = await agent.generate("weather?", { maxSteps: 3 });
    expect(result.text).toBe("7 degrees.");
  });
});
