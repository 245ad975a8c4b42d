import { createInterface, type Interface } from "node:readline/promises";
import type { Command } from "commander";
import { EngineError } from "#base";
import type { ChatMessage, GenerateOptions, LLM } from "#engine";
import { addEngineFlags, engineFlags, loadModel } from "../engine-flags.ts";
import { inFlags } from "../flags.ts";
import { SAMPLING_HEADING, samplingFlags } from "../sampling-flags.ts";
import { print } from "../standard-output.ts";

interface ChatFlags extends Readonly<Record<string, unknown>> {
  readonly system?: string;
}

const MAX_TOKENS_DEFAULT = 512;

/** The temperature if neither the model nor a flag sets it. */
const TEMPERATURE_DEFAULT = 0.7;

const sampling = samplingFlags({
  maxTokens: MAX_TOKENS_DEFAULT,
  temperature: TEMPERATURE_DEFAULT,
  hidden: [
    "n",
    "beamWidth",
    "lengthPenalty",
    "earlyStopping",
    "logprobs",
    "promptLogprobs",
    "logprobTokenIds",
    "skipReadingPrefixCache",
  ],
});

/** `perigee chat`. */
export function defineChat(command: Command): void {
  command
    .description("Chat with a model in the terminal. /new starts over, /exit leaves.")
    .option("--system <text>", "System message.")
    .action((model: string | undefined, flags: ChatFlags) =>
      chat(model, flags).catch((thrown: unknown) => {
        throw inFlags(thrown, sampling, engineFlags);
      }),
    );
  sampling.addTo(command, SAMPLING_HEADING);
  addEngineFlags(command);
}

/** Most time that measuring drafts takes, while someone waits. */
const MEASURE_MS = 300;

async function chat(model: string | undefined, flags: ChatFlags): Promise<void> {
  sampling.check(flags);
  await using llm = await loadModel({ model, values: flags, draftsMs: MEASURE_MS });
  if (!llm.info.hasChatTemplate) throw missingTemplate(llm);
  const terminal = openTerminal();
  const conversation = new Conversation(llm, terminal, flags);
  if (isInteractive()) process.stdout.write(`${llm.info.name} on ${llm.info.device}\n`);
  ask(terminal);
  for await (const line of terminal) {
    const text = line.trim();
    if (text === "/exit") break;
    if (text === "/new") conversation.restart();
    else if (text !== "") await conversation.say(text);
    ask(terminal);
  }
  terminal.close();
}

/** Whether a user types and reads on a terminal; otherwise only answers are printed. */
function isInteractive(): boolean {
  return process.stdin.isTTY && process.stdout.isTTY;
}

function openTerminal(): Interface {
  const input = process.stdin;
  if (!isInteractive()) return createInterface({ input });
  return createInterface({ input, output: process.stdout, prompt: "> " });
}

function ask(terminal: Interface): void {
  if (isInteractive()) terminal.prompt();
}

function missingTemplate(llm: LLM): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot chat: ${llm.info.name} must have a tokenizer and a chat template, it lacks one; ` +
      "give --chat-template FILE, or use perigee generate",
  );
}

/** The messages so far. */
class Conversation {
  readonly #llm: LLM;
  readonly #terminal: Interface;
  readonly #opening: readonly ChatMessage[];
  readonly #options: GenerateOptions;
  #messages: ChatMessage[];

  constructor(llm: LLM, terminal: Interface, flags: ChatFlags) {
    this.#llm = llm;
    this.#terminal = terminal;
    this.#opening = flags.system === undefined ? [] : [{ role: "system", content: flags.system }];
    this.#messages = [...this.#opening];
    this.#options = {
      temperature: TEMPERATURE_DEFAULT,
      ...llm.defaultSampling,
      ...sampling.collect(flags),
    };
  }

  restart(): void {
    this.#messages = [...this.#opening];
  }

  /** Streams one answer and stores both messages. Ctrl-C stops only the answer. */
  async say(text: string): Promise<void> {
    this.#messages.push({ role: "user", content: text });
    const stop = new AbortController();
    const interrupt = () => stop.abort();
    this.#terminal.once("SIGINT", interrupt);
    let said = "";
    try {
      const prompt = await this.#llm.chatPrompt(this.#messages);
      const options = { ...this.#options, signal: stop.signal };
      for await (const item of this.#llm.stream(prompt, options)) {
        said += item.text ?? "";
        await print(item.text ?? "");
      }
    } catch (thrown) {
      if (!stop.signal.aborted) throw thrown;
    } finally {
      this.#terminal.off("SIGINT", interrupt);
    }
    await print("\n");
    this.#messages.push({ role: "assistant", content: said });
  }
}
