/** Lines of a chat that begin with a slash: what they do, and what they answer. */
import { EngineError, nearestName } from "#base";
import type { LLM } from "#engine";
import type { ChatSettings } from "./chat-settings.ts";
import type { AnswerStats, Conversation } from "./conversation.ts";
import { loadTranscript, saveTranscript } from "./transcript.ts";

/** What commands work on. */
export interface ChatParts {
  readonly llm: LLM;
  readonly conversation: Conversation;
  readonly settings: ChatSettings;
}

/** What a line did. */
export type CommandResult =
  /** Says something, which may be "". */
  | { readonly kind: "note"; readonly text: string }
  /** Asks this again. */
  | { readonly kind: "say"; readonly text: string }
  | { readonly kind: "exit" };

interface ChatCommand {
  readonly usage: string;
  readonly help: string;
  /** `rest`: the line behind the command's name, without spaces around it. */
  run(parts: ChatParts, rest: string): CommandResult;
}

const note = (text: string): CommandResult => ({ kind: "note", text });

const COMMANDS: Readonly<Record<string, ChatCommand>> = {
  help: { usage: "/help", help: "this list", run: () => note(HELP) },
  clear: {
    usage: "/clear",
    help: "forget the conversation; the system message stays (also /new)",
    run: ({ conversation }) => {
      conversation.clear();
      return note("");
    },
  },
  system: {
    usage: "/system [TEXT|none]",
    help: "show or set the system message, from the next answer on",
    run: ({ conversation }, rest) => {
      if (rest === "") return note(conversation.system ?? "no system message");
      conversation.setSystem(rest === "none" ? null : rest);
      return note("");
    },
  },
  set: {
    usage: "/set [NAME VALUE]",
    help: "set what a flag sets, e.g. /set temperature 0.2; alone: what is set",
    run: ({ settings }, rest) => {
      const [, name, text = ""] = /^(\S+)\s*(.*)$/s.exec(rest) ?? [];
      if (name === undefined) return note(settingsText(settings));
      settings.set(name, text);
      return note("");
    },
  },
  retry: {
    usage: "/retry",
    help: "answer the last question again",
    run: ({ conversation }) => {
      const text = conversation.takeBack();
      return text === null ? note("nothing was asked yet") : { kind: "say", text };
    },
  },
  save: {
    usage: "/save FILE",
    help: "write the conversation as JSON",
    run: ({ llm, conversation }, rest) => {
      const file = fileOf("save", rest);
      saveTranscript(file, llm.info.name, conversation.messages);
      return note(`saved ${conversation.messages.length} messages in ${file}`);
    },
  },
  load: {
    usage: "/load FILE",
    help: "continue a saved conversation",
    run: ({ conversation }, rest) => {
      const messages = loadTranscript(fileOf("load", rest));
      conversation.replace(messages);
      return note(`${messages.length} messages`);
    },
  },
  stats: {
    usage: "/stats",
    help: "tokens, cache hits and speed of the last answer and of all",
    run: ({ llm, conversation }) => note(statsText(llm, conversation.stats)),
  },
  exit: {
    usage: "/exit",
    help: "leave (also /quit, /bye, Ctrl-D)",
    run: () => ({ kind: "exit" }),
  },
};

const ALIASES: Readonly<Record<string, string>> = {
  ...{ new: "clear", quit: "exit", bye: "exit", "?": "help", regenerate: "retry" },
};

const HELP = [
  ...Object.values(COMMANDS).map(({ usage, help }) => `${usage.padEnd(20)} ${help}`),
  `${'"""'.padEnd(20)} begins and ends a message of several lines; \\ at a line's end goes on`,
  "A space before a slash makes a line a message. Ctrl-C stops an answer.",
].join("\n");

/** Names that complete behind a slash. */
export const CHAT_COMMAND_NAMES: readonly string[] = Object.keys(COMMANDS);

/** Runs a line that begins with a slash. Throws INVALID_ARGUMENT and IO, with the remedy. */
export function runChatCommand(line: string, parts: ChatParts): CommandResult {
  const [, word = "", rest = ""] = /^\/(\S*)\s*(.*)$/s.exec(line) ?? [];
  const name = ALIASES[word] ?? word;
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command !== undefined) return command.run(parts, rest.trim());
  const near = nearestName(word, [...Object.keys(COMMANDS), ...Object.keys(ALIASES)]);
  const remedy = near === null ? "/help lists all" : `did you mean /${near}?`;
  const asText = "a space before the slash makes it a message";
  throw new EngineError("INVALID_ARGUMENT", `/${word} is no command; ${remedy} (${asText})`);
}

function fileOf(name: string, rest: string): string {
  if (rest !== "") return rest;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot ${name}: must have a file, as in /${name} chat.json`,
  );
}

function settingsText(settings: ChatSettings): string {
  const set = Object.entries(settings.options)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  return `${set.join("\n")}\nsettings: ${settings.names.join(", ")}`;
}

function statsText(llm: LLM, all: readonly AnswerStats[]): string {
  const last = all.at(-1);
  if (last === undefined) return "nothing was answered yet";
  const sum = (of: (each: AnswerStats) => number) =>
    all.reduce((total, each) => total + of(each), 0);
  const total: AnswerStats = {
    promptTokens: sum((each) => each.promptTokens),
    cachedTokens: sum((each) => each.cachedTokens),
    outputTokens: sum((each) => each.outputTokens),
    acceptedTokens: all.some((each) => each.acceptedTokens !== null)
      ? sum((each) => each.acceptedTokens ?? 0)
      : null,
    firstTokenMs: sum((each) => each.firstTokenMs) / all.length,
    totalMs: sum((each) => each.totalMs),
  };
  const context = llm.info.contextTokensMax;
  const used = last.promptTokens + last.outputTokens;
  return [
    `last answer: ${statsLine(last)}`,
    `${all.length} answers: ${statsLine(total)}`,
    `context: ${used} of ${context} tokens`,
  ].join("\n");
}

function statsLine(stats: AnswerStats): string {
  const { promptTokens, cachedTokens, outputTokens, acceptedTokens } = stats;
  const decodeSeconds = (stats.totalMs - stats.firstTokenMs) / 1000;
  const speed =
    decodeSeconds > 0 ? `${((outputTokens - 1) / decodeSeconds).toFixed(1)} tokens/s` : "";
  return [
    `${promptTokens} prompt tokens, ${cachedTokens} cached`,
    `${outputTokens} output tokens`,
    ...(acceptedTokens === null ? [] : [`${acceptedTokens} of them drafted`]),
    `first after ${stats.firstTokenMs.toFixed(0)} ms`,
    ...(speed === "" || outputTokens < 2 ? [] : [speed]),
  ].join(", ");
}
