/** Prompts of `bench serve`: random token ids, random text, or the rows of a file. */
import { createReadStream } from "node:fs";
import { EngineError, philox, seedFrom } from "#base";
import { fileProblem } from "../file-problem.ts";
import { readLines } from "../line-reader.ts";
import { randomPrompts } from "./random-prompts.ts";

/** One prompt, in the format of its route. */
export type OnlinePrompt =
  | { readonly prompt: readonly number[] | string }
  | { readonly messages: readonly unknown[] };

export interface OnlinePromptOptions {
  readonly prompts: number;
  /** Length of each random prompt: tokens, or words if it is text. */
  readonly inputLength: number;
  readonly vocabularySize: number;
  readonly seed: number;
  /** Text instead of token ids. */
  readonly text: boolean;
  /** User messages for the chat route; always text. */
  readonly chat: boolean;
  /** JSON lines, each a text or an object with "prompt" or "messages"; null: random prompts. */
  readonly dataset: string | null;
}

/** Short common words, about one token each in most vocabularies. */
const WORDS = (
  "the of and to in is was for on that with as by at from it his an are this which or had not be " +
  "first new one two time people year way day man world life part place case week company system"
).split(" ");

/**
 * The prompts of a run: equal options give equal prompts. For a dataset that cannot be used, throws
 * IO, or INVALID_ARGUMENT naming the line.
 */
export async function onlinePrompts(options: OnlinePromptOptions): Promise<OnlinePrompt[]> {
  const { prompts, inputLength, vocabularySize, seed, text, chat, dataset } = options;
  if (dataset !== null) return (await readDataset(dataset, prompts)).map((row) => asked(row, chat));
  if (text || chat) {
    return randomTexts(prompts, inputLength, seed).map((prompt) => asked({ prompt }, chat));
  }
  return randomPrompts(prompts, inputLength, vocabularySize, seed).map(({ promptTokenIds }) => ({
    prompt: promptTokenIds,
  }));
}

/** On the chat route, a text becomes a user message. */
function asked(row: OnlinePrompt, chat: boolean): OnlinePrompt {
  if ("messages" in row || !chat) return row;
  return { messages: [{ role: "user", content: row.prompt }] };
}

function randomTexts(count: number, words: number, seed: number): string[] {
  const key = seedFrom(seed);
  return Array.from({ length: count }, (_, prompt) =>
    Array.from({ length: words }, (_, place) => {
      const [word] = philox([place, prompt, 2, 0], key);
      return WORDS[word % WORDS.length] ?? "";
    }).join(" "),
  );
}

/** The first `count` rows of a file. */
async function readDataset(file: string, count: number): Promise<OnlinePrompt[]> {
  const rows: OnlinePrompt[] = [];
  try {
    for await (const line of readLines(createReadStream(file))) {
      if ("text" in line && line.text.trim() === "") continue;
      const row = "text" in line ? rowOf(line.text) : null;
      if (row === null) throw wrongRow(`${file}, line ${line.number}`);
      rows.push(row);
      if (rows.length === count) break;
    }
  } catch (cause) {
    if (cause instanceof EngineError) throw cause;
    throw fileProblem({ action: "read", file, wanted: "a file of JSON lines", cause });
  }
  if (rows.length > 0) return rows;
  throw wrongRow(file);
}

/** Null for a line without a valid prompt. */
function rowOf(line: string): OnlinePrompt | null {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return null;
  }
  if (typeof value === "string") return { prompt: value };
  if (typeof value !== "object" || value === null) return null;
  const messages: unknown = Reflect.get(value, "messages");
  const prompt: unknown = Reflect.get(value, "prompt");
  if (Array.isArray(messages) && messages.length > 0) return { messages };
  return typeof prompt === "string" ? { prompt } : null;
}

function wrongRow(place: string): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot read ${place}: wanted JSON, a text or an object with "prompt" (text) or "messages"`,
    { param: "--dataset" },
  );
}
