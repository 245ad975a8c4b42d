import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { HTTP_ERRORS } from "#server";
import { perigee } from "../cli/perigee.ts";
import { sized } from "../support/full.ts";
import { checkAnswer } from "./answer-check.ts";
import { bodyOf, sendBody } from "./case-sender.ts";
import { chosenValues, type DoorCase, doorCases, TRANSLATIONS } from "./doors.ts";
import { type LlmCall, LlmProcess } from "./llm-process.ts";
import { ServedProcess } from "./served-process.ts";

const timeoutMs = 15 * 60_000;
vi.setConfig({ testTimeout: timeoutMs, hookTimeout: timeoutMs });

const seed = 7;
const valuesPerField = sized(2, 25);

/** What only HTTP refuses: its own limits to bodies, before any field is looked at. */
const BODY_CODES = ["invalid_json_body", "nested_too_deeply", "too_many_values", "body_too_large"];

/**
 * More tokens than the context has room for are refused over HTTP, as by OpenAI; elsewhere they mean
 * as many as there is room for.
 */
function isMeant({ field }: DoorCase, code: string, own: string): boolean {
  return field === "max_tokens" && code === "context_length_exceeded" && own === "ok";
}

const cases = Object.keys(TRANSLATIONS).flatMap((field) => doorCases(field, valuesPerField, seed));
const httpCode = new Map(Object.entries(HTTP_ERRORS).map(([code, { code: name }]) => [code, name]));
const folder = mkdtempSync(join(tmpdir(), "perigee-doors-"));

/** What is bounded by time may be refused once and taken once, where other programs run, too. */
const ASKED_AGAIN = 3;

let server: ServedProcess;
let llm: LlmProcess;
let codes: string[];

/** The server's verdict of a case. */
async function serverCode({ http }: DoorCase): Promise<string> {
  const answer = await sendBody(server.url, http.path, bodyOf(http, "whole"));
  const { code, problems } = checkAnswer(http, "whole", answer);
  return problems.length > 0 ? problems.join("; ") : code;
}

beforeAll(async () => {
  server = await ServedProcess.start(".");
  codes = [];
  for (const one of cases) codes.push(await serverCode(one));
  llm = await LlmProcess.start();
});

afterAll(() => {
  llm?.kill();
  server?.kill();
  rmSync(folder, { recursive: true, force: true });
});

const shown = ({ field, value }: DoorCase) => `${field}: ${value.slice(0, 100)}`;

/** Cases whose field the server looked at, with its verdict. */
function compared(): { readonly one: DoorCase; readonly code: string }[] {
  return cases
    .map((one, at) => ({ one, code: codes[at] ?? "" }))
    .filter(({ code }) => !BODY_CODES.includes(code));
}

/** Null: both say the same, or say it when they are asked again. */
async function difference(
  { one, code }: { readonly one: DoorCase; readonly code: string },
  own: string,
  askAgain: () => Promise<string>,
): Promise<string | null> {
  const isSame = (there: string, here: string) => here === there || isMeant(one, there, here);
  if (isSame(code, own)) return null;
  for (let time = 0; time < ASKED_AGAIN; time++) {
    if (isSame(await serverCode(one), await askAgain())) return null;
  }
  return `${shown(one)}: ${code}, here ${own}`;
}

test("TypeScript refuses what HTTP refuses, by the same code, at once and as a stream", async () => {
  const differences: string[] = [];
  for (const each of compared()) {
    for (const call of ["generate", "stream"] as const) {
      const ask = async () => {
        const { prompt, options: text } = each.one;
        const verdict = await llm.call({ call, prompt, text });
        return httpCode.get(verdict.code) ?? verdict.code;
      };
      const found = await difference(each, await ask(), ask);
      if (found !== null) differences.push(`${call}: ${found}`);
    }
  }
  expect(differences).toEqual([]);
});

/** The verdict of each row, by its own number. */
async function rowCodes(rows: readonly (string | null)[]): Promise<Map<number, string>> {
  const input = join(folder, "rows.jsonl");
  const output = join(folder, "results.jsonl");
  writeFileSync(input, rows.map((row) => `${row}\n`).join(""));
  const flags = ["--input", input, "--output", output, "--dtype", "float32"];
  flags.push("--speculative", "redrafter");
  await perigee(["generate", "models/pocket", ...flags]);
  const verdicts = new Map<number, string>();
  for (const line of readFileSync(output, "utf8").trim().split("\n")) {
    const { prompt_index: place, error } = JSON.parse(line);
    verdicts.set(place, error === undefined ? "ok" : (httpCode.get(error.code) ?? error.code));
  }
  return verdicts;
}

test("a row of --input is refused where HTTP refuses it, alone, and by the same code", async () => {
  const rows = compared().filter(({ one }) => one.row !== null);
  const verdicts = await rowCodes(rows.map(({ one }) => one.row));
  const differences: string[] = [];
  for (const [at, each] of rows.entries()) {
    const askAgain = async () => (await rowCodes([each.one.row])).get(0) ?? "nothing";
    const found = await difference(each, verdicts.get(at) ?? "nothing", askAgain);
    if (found !== null) differences.push(found);
  }
  expect(differences).toEqual([]);
});

test("values that no JSON can say are refused with an EngineError, or mean nothing", async () => {
  const strange: string[] = [];
  const fields = [...new Set(Object.values(TRANSLATIONS).map(({ field }) => field))];
  for (const field of [...fields, "signal", "retention", "requestId", "extraArgs"]) {
    for (const exotic of llm.exotic) {
      const text = '{"maxTokens":1,"temperature":0}';
      const { code } = await llm.call({
        ...{ call: "generate", prompt: '"a"', text, field, exotic },
      });
      if (code.startsWith("not ours")) strange.push(`${field}: ${exotic}: ${code}`);
    }
  }
  expect(strange).toEqual([]);
});

const CHAT_FIELDS = [
  ...["tools", "toolChoice", "roundsMax", "parallelToolCalls", "thinking", "toolCallFormat"],
  ...["reasoningFormat", "chatTemplate", "templateVariables", "signal", "cacheSalt", "requestId"],
];

test("a chat refuses what is none of its options with an EngineError, or it means nothing", async () => {
  const strange: string[] = [];
  const note = (what: string, { code }: { readonly code: string }) => {
    if (code.startsWith("not ours")) strange.push(`${what}: ${code}`);
  };
  const text = '{"maxTokens":1,"temperature":0}';
  for (const field of CHAT_FIELDS) {
    for (const exotic of llm.exotic) {
      note(`${field}: ${exotic}`, await llm.call({ call: "chat", text, field, exotic }));
    }
    for (const value of chosenValues("tools", 2 * valuesPerField, seed)) {
      const own = `{"maxTokens":1,${JSON.stringify(field)}:${value}}`;
      note(`${field}: ${value.slice(0, 80)}`, await llm.call({ call: "chat", text: own }));
    }
  }
  for (const value of chosenValues("messages", 2 * valuesPerField, seed)) {
    const own = { call: "chat", messages: value, text } as const;
    note(`messages: ${value.slice(0, 80)}`, await llm.call(own));
  }
  expect(strange).toEqual([]);
});

test("prompts and conversations of every kind are taken or refused, and nothing stays held", async () => {
  const strange: string[] = [];
  for (const field of ["prompt", "messages", "messages[].content"]) {
    for (const value of chosenValues(field, 2 * valuesPerField, seed)) {
      const { code } = await llm.call(callOf(field, value));
      if (code.startsWith("not ours")) strange.push(`${field}: ${value.slice(0, 80)}: ${code}`);
    }
  }
  expect(strange).toEqual([]);
  expect(await llm.end()).toEqual({ heldBlocks: 0, exitCode: 0 });
});

function callOf(field: string, value: string): LlmCall {
  if (field === "prompt") return { call: "generate", prompt: value, text: '{"maxTokens":1}' };
  const messages = field === "messages" ? value : `[{"role":"user","content":${value}}]`;
  return { call: "chatPrompt", messages };
}
