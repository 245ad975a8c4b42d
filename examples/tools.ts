// node examples/tools.ts: the model calls a function of this program, and answers with its result.
import { defineTool, LLM } from "perigee";

const llm = await LLM.load();

const getHeight = defineTool({
  name: "get_height",
  description: "The height of a mountain, in metres.",
  parameters: {
    type: "object",
    properties: { mountain: { enum: ["Galdhoepiggen", "Snoehetta"] } },
    required: ["mountain"],
  },
  // The type of `mountain` is that of the schema.
  run: ({ mountain }) => ({ mountain, metres: mountain === "Snoehetta" ? 2286 : 2469 }),
});

const chat = llm.chatStream("How high is Snoehetta?", {
  tools: [getHeight],
  toolChoice: "required", // a small model needs it: the grammar makes its first answer a call
  parallelToolCalls: false,
  temperature: 0,
  maxTokens: 64,
});
for await (const event of chat) {
  if (event.type === "tool-call") console.log("calls", event.call.name);
  if (event.type === "tool-result") console.log("gets", event.result);
  if (event.type === "end") {
    const { rounds, usage } = event.result;
    console.log(`${rounds} answers, ${usage.cachedTokens} prompt tokens were cached`);
  }
}

await llm.close();
