import { describe, expect, test } from "vitest";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";
import { ollamaClient } from "../ollama/ollama-client.ts";
import { messagesClient } from "./messages-client.ts";

closeToyServers();

const toy = {
  reply: () => "<think>\nwhich city?\n</think>\n\nIt is 4°.",
  chatTemplate: "{{ '<think>' }}{{ content.split('</think>')[-1] }}",
};
const messages = [{ role: "user" as const, content: "weather?" }];

describe("a model that thinks", () => {
  test.each([false, true])("has a block of thoughts first, streamed: %s", async (stream) => {
    const client = messagesClient(await serveToy(toy));
    const thinking = { type: "enabled" as const, budget_tokens: 1024 };
    const request = { model: "toy", max_tokens: 2000, messages, thinking };
    const answer = stream
      ? await client.messages.stream(request).finalMessage()
      : await client.messages.create(request);
    expect(answer.content).toMatchObject([
      { type: "thinking", thinking: "which city?" },
      { type: "text", text: "It is 4°." },
    ]);
    expect(answer.stop_reason).toBe("end_turn");
  });

  test("tells Ollama's clients its thoughts apart, too", async () => {
    const client = ollamaClient(await serveToy(toy));
    const { message } = await client.chat({ model: "toy", messages, think: true });
    expect(message.thinking).toBe("which city?");
    expect(message.content).toBe("It is 4°.");
  });
});
