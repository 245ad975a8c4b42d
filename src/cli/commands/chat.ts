import { createInterface } from "node:readline/promises";
import type { Command } from "commander";
import { EngineError } from "#base";
import type { ChatMessage, LLM } from "#engine";
import { addEngineFlags, loadModel } from "../engine-flags.ts";

interface ChatFlags extends Record<string, unknown> {
  readonly system?: string;
  readonly temperature: string;
  readonly maxTokens: string;
}

export function addChatCommand(root: Command): void {
  const command = root
    .command("chat")
    .description("Talk to a model in the terminal. /new starts over, /exit leaves.")
    .argument("[model]", "a directory, a .gguf file or a Hugging Face id; default: bundled model")
    .option("--system <text>", "system message")
    .option("--temperature <n>", "0 is greedy", "0.7")
    .option("--max-tokens <n>", "most tokens per answer", "512")
    .action(async (model: string | undefined, flags: ChatFlags) => chat(model, flags));
  addEngineFlags(command);
}

async function chat(model: string | undefined, flags: ChatFlags): Promise<void> {
  await using llm = await loadModel({ model, values: flags });
  if (llm.codec === null) {
    throw new EngineError("TOKENIZER_MISSING", `Cannot chat: ${llm.info.name} has no tokenizer`);
  }
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const start = (): ChatMessage[] =>
    flags.system === undefined ? [] : [{ role: "system", content: flags.system }];
  let messages = start();
  if (process.stdin.isTTY) process.stdout.write(`${llm.info.name} on ${llm.info.device}\n`);
  terminal.setPrompt("> ");
  terminal.prompt();
  for await (const line of terminal) {
    const text = line.trim();
    if (text === "/exit") break;
    if (text === "/new") messages = start();
    else if (text !== "") await answer(llm, messages, text, flags);
    terminal.prompt();
  }
  terminal.close();
}

/** Streams one answer and adds both sides to the conversation. Ctrl-C stops the answer only. */
async function answer(
  llm: LLM,
  messages: ChatMessage[],
  text: string,
  flags: ChatFlags,
): Promise<void> {
  messages.push({ role: "user", content: text });
  const stop = new AbortController();
  const interrupt = () => stop.abort();
  process.once("SIGINT", interrupt);
  let said = "";
  try {
    const prompt = await llm.chatPrompt(messages);
    const options = {
      temperature: Number(flags.temperature),
      maxTokens: Number(flags.maxTokens),
      signal: stop.signal,
    };
    for await (const item of llm.stream(prompt, options)) {
      said += item.text ?? "";
      process.stdout.write(item.text ?? "");
    }
  } catch (thrown) {
    if (!stop.signal.aborted) throw thrown;
  } finally {
    process.off("SIGINT", interrupt);
  }
  process.stdout.write("\n");
  messages.push({ role: "assistant", content: said });
}
