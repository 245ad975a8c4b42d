// node examples/openai-client.ts: the official OpenAI client against a server in this process.
import OpenAI from "openai";
import { LLM } from "perigee";
import { startServer } from "perigee/server";

const llm = await LLM.load();
const server = await startServer(llm, { port: 0, logLevel: "silent" });

const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none" });
const stream = await client.chat.completions.create({
  model: "pocket",
  messages: [{ role: "user", content: "Who are you?" }],
  temperature: 0,
  stream: true,
});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? "");
process.stdout.write("\n");

await server.close();
await llm.close();
