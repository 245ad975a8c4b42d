import { createInterface, type Interface } from "node:readline/promises";
import type { Command } from "commander";
import { EngineError, messageOf } from "#base";
import type { LLM } from "#engine";
import { CHAT_COMMAND_NAMES, type ChatParts, runChatCommand } from "../chat/chat-commands.ts";
import { ChatSettings } from "../chat/chat-settings.ts";
import { Conversation } from "../chat/conversation.ts";
import { MessageLines } from "../chat/message-lines.ts";
import { addEngineFlags, engineFlags, loadModel } from "../engine-flags.ts";
import { inFlags } from "../flags.ts";
import { SAMPLING_HEADING, samplingFlags } from "../sampling-flags.ts";
import { plainText } from "../terminal-text.ts";

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
    .description("Chat with a model in the terminal. /help lists commands, /exit leaves.")
    .option("--system <text>", "System message.")
    .action((model: string | undefined, flags: ChatFlags) =>
      chat(model, flags).catch((thrown: unknown) => {
        throw inFlags(thrown, sampling, engineFlags);
      }),
    );
  sampling.addTo(command, SAMPLING_HEADING);
  addEngineFlags(command, MEASURE_MS);
}

/** Most time that measuring drafts takes, while someone waits; of a pipe the question is there. */
const MEASURE_MS = 300;
const PIPE_MEASURE_MS = 100;

async function chat(model: string | undefined, flags: ChatFlags): Promise<void> {
  sampling.check(flags);
  await using llm = await loadModel({
    model,
    values: flags,
    draftsMs: isInteractive() ? MEASURE_MS : PIPE_MEASURE_MS,
  });
  if (!llm.info.hasChatTemplate) throw missingTemplate(llm);
  const fallback = { temperature: TEMPERATURE_DEFAULT, ...llm.defaultSampling };
  const parts: ChatParts = {
    llm,
    conversation: new Conversation(llm, flags.system ?? null),
    settings: new ChatSettings(sampling, flags, fallback),
  };
  const terminal = openTerminal();
  if (isInteractive()) note(`${llm.info.name} on ${llm.info.device}; /help lists commands`);
  await converse(terminal, parts);
  terminal.close();
}

/** Until the end of input, or /exit. */
async function converse(terminal: Interface, parts: ChatParts): Promise<void> {
  const lines = new MessageLines();
  ask(terminal, lines);
  for await (const line of terminal) {
    const isCommand = !lines.isOpen && line.startsWith("/");
    const message = isCommand ? line : lines.add(line);
    if (message !== null && (await handle(message, { isCommand, terminal, parts }))) return;
    ask(terminal, lines);
  }
  if (lines.isOpen) await handle(lines.take(), { isCommand: false, terminal, parts });
}

interface Handling {
  readonly isCommand: boolean;
  readonly terminal: Interface;
  readonly parts: ChatParts;
}

/** Whether the chat is over. What goes wrong is told, and the chat goes on; a pipe ends with it. */
async function handle(line: string, { isCommand, terminal, parts }: Handling): Promise<boolean> {
  try {
    if (!isCommand) {
      await answer(line.trim(), terminal, parts);
      return false;
    }
    const result = runChatCommand(line, parts);
    if (result.kind === "exit") return true;
    if (result.kind === "say") await answer(result.text, terminal, parts);
    else note(result.text);
  } catch (thrown) {
    if (!isInteractive() || !(thrown instanceof EngineError) || LOST.has(thrown.code)) throw thrown;
    note(messageOf(thrown));
  }
  return false;
}

/** After these no question will be answered. */
const LOST = new Set(["ENGINE_DEAD", "ENGINE_STUCK", "DEVICE_FAILED"]);

/** Ctrl-C stops only the answer. */
async function answer(text: string, terminal: Interface, parts: ChatParts): Promise<void> {
  if (text === "") return;
  const stop = new AbortController();
  const interrupt = () => stop.abort();
  terminal.once("SIGINT", interrupt);
  try {
    await parts.conversation.say(text, { ...parts.settings.options, signal: stop.signal });
  } finally {
    terminal.off("SIGINT", interrupt);
  }
}

/** On standard error: standard output has answers only. */
function note(text: string): void {
  if (text !== "") process.stderr.write(`${plainText(text)}\n`);
}

/** Whether a user types and reads on a terminal; otherwise only answers are printed. */
function isInteractive(): boolean {
  return process.stdin.isTTY && process.stdout.isTTY;
}

function openTerminal(): Interface {
  const input = process.stdin;
  if (!isInteractive()) return createInterface({ input });
  return createInterface({ input, output: process.stdout, prompt: PROMPT, completer });
}

const PROMPT = "> ";
const GOES_ON = ". ";

/** Tab completes commands. */
function completer(line: string): [string[], string] {
  const names = CHAT_COMMAND_NAMES.map((name) => `/${name}`);
  return [line.startsWith("/") ? names.filter((name) => name.startsWith(line)) : [], line];
}

function ask(terminal: Interface, lines: MessageLines): void {
  if (!isInteractive()) return;
  terminal.setPrompt(lines.isOpen ? GOES_ON : PROMPT);
  terminal.prompt();
}

function missingTemplate(llm: LLM): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot chat: ${llm.info.name} must have a tokenizer and a chat template, it lacks one; ` +
      "give --chat-template FILE, or use perigee generate",
  );
}
