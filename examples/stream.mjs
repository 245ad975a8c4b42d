// node examples/stream.mjs: a chat answer as it is made, given up after ten seconds.
import { LLM } from "perigee";

const llm = await LLM.load("models/pocket");

const passage =
  "The Halden bridge was opened in 1931. It is 412 metres long and carries two roads.";
const question = "How long is the Halden bridge?";
const prompt = await llm.chatPrompt([
  { role: "user", content: `${passage}\n\nQuestion: ${question}` },
]);

const signal = AbortSignal.timeout(10_000);
for await (const { text, finishReason } of llm.stream(prompt, {
  temperature: 0,
  maxTokens: 64,
  signal,
})) {
  process.stdout.write(text ?? "");
  if (finishReason !== null) process.stdout.write(`\n(${finishReason})\n`);
}

await llm.close();
