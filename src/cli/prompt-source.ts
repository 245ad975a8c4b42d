/** Prompts from flags, files and pipes. */
import { once } from "node:events";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import type { Readable } from "node:stream";
import { text as readText } from "node:stream/consumers";
import { EngineError } from "#base";
import { fileProblem } from "./file-problem.ts";
import { type InputLine, readLines } from "./line-reader.ts";
import {
  type InputRow,
  isTokenId,
  type PromptRow,
  parsePromptLine,
  plainRow,
  type RowCheck,
  rowRefusal,
} from "./prompt-row.ts";

/** The sources of prompts on a command line. */
export interface PromptFlags {
  readonly prompt?: readonly string[];
  readonly promptIds?: readonly string[];
  readonly input?: string;
  /** The positional argument, which may have been meant as a prompt. */
  readonly model?: string | undefined;
}

/**
 * All prompts: texts, token ids, then those of the file; without any, the text of a pipe. An
 * invalid row of the file becomes a `RefusedRow` in its place. Throws INVALID_ARGUMENT, for the
 * first invalid row if no row is valid, and IO.
 */
export async function readPrompts(flags: PromptFlags, check: RowCheck): Promise<InputRow[]> {
  const rows: InputRow[] = [
    ...(flags.prompt ?? []).map((prompt) => plainRow(prompt)),
    ...(flags.promptIds ?? []).map((list) => plainRow({ promptTokenIds: parseIds(list) })),
  ];
  if (flags.input !== undefined) await readPromptFile(flags.input, check, rows);
  else if (rows.length === 0 && !process.stdin.isTTY) rows.push(...(await readPipe()));
  if (rows.length > 0) return rows;
  const instead = flags.model === undefined ? "" : `, "${flags.model}" was taken as the model`;
  throw new EngineError(
    "INVALID_ARGUMENT",
    "Cannot generate: wanted a prompt (-p TEXT, --prompt-ids 1,2,3, --input FILE, --input - for " +
      `JSON lines from a pipe, or plain text from a pipe), got none${instead}`,
  );
}

/** `echo text | perigee generate`: the whole text is one prompt. */
async function readPipe(): Promise<PromptRow[]> {
  const text = (await readText(process.stdin)).replace(/\r?\n$/, "");
  return text === "" ? [] : [plainRow(text)];
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

/** Appends the file's rows to `rows`. */
async function readPromptFile(file: string, check: RowCheck, rows: InputRow[]): Promise<void> {
  const name = file === "-" ? "standard input" : file;
  let first: EngineError | null = null;
  for await (const line of readLines(await openInput(file))) {
    if ("text" in line && line.text.trim() === "") continue;
    const place = `${name}, line ${line.number}`;
    try {
      rows.push(rowOf(line, place, check));
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      first ??= error;
      rows.push({ place, refused: { code: error.code, message: error.message } });
    }
  }
  if (first !== null && rows.every((row) => "refused" in row)) throw first;
}

function rowOf(line: InputLine, place: string, check: RowCheck): PromptRow {
  if ("problem" in line) throw rowRefusal(place, line.problem);
  return parsePromptLine(line.text, place, check);
}

/** Opens any file but a folder; pipes are read too, once. */
async function openInput(file: string): Promise<Readable> {
  if (file === "-") return process.stdin;
  try {
    if ((await stat(file)).isDirectory()) throw new Error("it is a folder");
    const stream = createReadStream(file);
    await once(stream, "open");
    return stream;
  } catch (cause) {
    throw fileProblem({ action: "read", file, wanted: "a file of JSON lines", cause });
  }
}
