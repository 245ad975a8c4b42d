import { once } from "node:events";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createInterface } from "node:readline";
import { EngineError, messageOf } from "#base";
import type { Prompt } from "#engine";

/** Where prompts may stand on a command line. */
export interface PromptFlags {
  readonly prompt?: readonly string[];
  readonly promptIds?: readonly string[];
  readonly input?: string;
}

/** All prompts: texts, token ids, then those of the file. Throws INVALID_ARGUMENT and IO. */
export async function readPrompts(flags: PromptFlags): Promise<Prompt[]> {
  const prompts: Prompt[] = [...(flags.prompt ?? [])];
  for (const list of flags.promptIds ?? []) prompts.push({ promptTokenIds: parseIds(list) });
  if (flags.input !== undefined) prompts.push(...(await readPromptFile(flags.input)));
  if (prompts.length > 0) return prompts;
  throw new EngineError(
    "INVALID_ARGUMENT",
    "Cannot generate: wanted a prompt (-p TEXT, --prompt-ids 1,2,3 or --input FILE), got none",
  );
}

function parseIds(list: string): number[] {
  return list.split(",").map((text) => {
    const id = Number(text);
    if (text.trim() !== "" && isTokenId(id)) return id;
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot use --prompt-ids: wanted token ids like 1,2,3, current value is ${list}`,
    );
  });
}

function isTokenId(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0;
}

async function readPromptFile(file: string): Promise<Prompt[]> {
  const prompts: Prompt[] = [];
  const name = file === "-" ? "standard input" : file;
  let number = 0;
  for await (const line of createInterface({ input: await openInput(file) })) {
    number += 1;
    if (line.trim() !== "") prompts.push(parsePromptLine(line, `${name}, line ${number}`));
  }
  return prompts;
}

/** Anything but a folder: pipes are read too, once. */
async function openInput(file: string): Promise<NodeJS.ReadableStream> {
  if (file === "-") return process.stdin;
  try {
    if ((await stat(file)).isDirectory()) throw new Error("it is a folder");
    const stream = createReadStream(file);
    await once(stream, "open");
    return stream;
  } catch (cause) {
    throw new EngineError(
      "IO",
      `Cannot read ${file}: wanted a file of JSON lines, ${messageOf(cause)}`,
      { cause },
    );
  }
}

function parsePromptLine(line: string, where: string): Prompt {
  const refuse = (wanted: string, cause?: unknown) =>
    new EngineError("INVALID_ARGUMENT", `Cannot read ${where}: wanted ${wanted}`, { cause });
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw refuse("a JSON object", cause);
  }
  if (typeof value === "string") return value;
  const { prompt, prompt_token_ids: ids } = (value ?? {}) as Record<string, unknown>; // checked
  if (typeof prompt === "string") return prompt;
  if (Array.isArray(ids) && ids.length > 0 && ids.every(isTokenId)) return { promptTokenIds: ids };
  throw refuse('"prompt" (text) or "prompt_token_ids" (a list of ids)');
}
