// node examples/stream.ts: streams a chat answer, and cancels it after ten seconds.
import { LLM } from "perigee";

const llm = await LLM.load();

const passage =
  "The Halden bridge was opened in 1931. It is 412 metres long and carries two roads.";
const question = "How long is the Halden bridge?";
const prompt = await llm.chatPrompt([
  { role: "user", content: `${passage}\n\nQuestion: ${question}` },
]);

const signal = AbortSignal.timeout(10_000);
const answer = llm.stream(prompt, { temperature: 0, maxTokens: 64, signal });
for await (const { text, finishReason } of answer) {
  process.stdout.write(text ?? "");
  if (finishReason !== null) process.stdout.write(`\n(${finishReason})\n`);
}

await llm.close();
