/**
 * The pages for those who come from another engine: what stands in the column of ours is there.
 * Flags are the commands' own, routes those of the OpenAPI document, methods and options those of
 * the declarations.
 */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { commandModel, everyCommand } from "../../src/cli/completion/command-model.ts";
import { loadProgram } from "../../src/cli/program.ts";
import { isRoute } from "./served-routes.ts";

const pages = ["from-vllm", "from-ollama", "from-node-llama-cpp"];
const commands = [...everyCommand(commandModel(await loadProgram("*")))];
const flags = new Set(commands.flatMap((command) => command.flags.map(({ long }) => long)));
const shortFlags = new Set(commands.flatMap(({ flags }) => flags.map(({ short }) => short)));
const declarations = readFileSync("docs/api/perigee.md", "utf8");
const configuration = readFileSync("docs/configuration.md", "utf8");

/** The backticked words in the second column of each table. */
function oursOf(page: string): string[] {
  const rows = page.split("\n").filter((line) => /^\| /.test(line));
  const cells = rows.map((row) => row.split(/(?<!\\)\|/)[2] ?? "");
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, word = ""]) => word));
}

/** Null: it is there. */
function missing(word: string): string | null {
  const [first = "", ...rest] = word.split(" ");
  if (/^(GET |POST |DELETE )?\//.test(word)) {
    return isRoute(word.replace(/^[A-Z]+ /, "")) ? null : `no route ${word}`;
  }
  if (first === "perigee") return missingCommand(rest);
  if (first.startsWith("-")) return missingFlags([first]);
  if (/^(llm|LLM)\./.test(word)) return missingMethod(word.split(".")[1] ?? "");
  return isOption(word) ? null : `nothing is called ${word}`;
}

function missingCommand(words: readonly string[]): string | null {
  const named = words.filter((word) => /^[a-z]+$/.test(word));
  const depth = named.length;
  const found = commands.filter(({ path }) => path.length > 0 && path.length <= depth);
  const command = found.filter(({ path }) => path.every((name, place) => name === named[place]));
  const isWhole = command.some(({ path, children }) => children.length === 0 || path.length === 0);
  return isWhole ? missingFlags(words.filter((word) => word.startsWith("-"))) : `no ${words[0]}`;
}

function missingFlags(words: readonly string[]): string | null {
  const unknown = words.filter((word) => !flags.has(word) && !shortFlags.has(word));
  return unknown.length === 0 ? null : `no flag ${unknown.join(", ")}`;
}

function missingMethod(name: string): string | null {
  const [body = ""] = /^class LLM [\s\S]*?^}/m.exec(declarations) ?? [];
  return new RegExp(`^  (static |readonly |get )*${name}\\b`, "m").test(body)
    ? null
    : `LLM has no ${name}`;
}

/** An option with its group, such as `kvCache.dtype`, or an export, perhaps with a value. */
function isOption(word: string): boolean {
  const name = word.replace(/:.*$/s, "");
  const isSetting = configuration.includes(`| \`${name}\` |`);
  const isField = new RegExp(`^  readonly ${name}\\??:`, "m").test(declarations);
  return isSetting || isField || declarations.includes(`### ${name}\n`);
}

describe.each(pages)("docs/%s.md", (page) => {
  const ours = oursOf(readFileSync(`docs/${page}.md`, "utf8"));

  test("has a table", () => expect(ours.length).toBeGreaterThan(15));

  test("names what there is as ours", () => {
    expect(ours.map(missing).filter((problem) => problem !== null)).toEqual([]);
  });
});

test.each<[string, string | null]>([
  ["--no-such-flag 1", "no flag --no-such-flag"],
  ["--port", null],
  ["perigee srve MODEL", "no srve"],
  ["perigee serve MODEL", null],
  ["perigee bench latency", null],
  ["perigee bench nothing", "no bench"],
  ["perigee serve --no-such-flag", "no flag --no-such-flag"],
  ["/v1/nothing", "no route /v1/nothing"],
  ["GET /api/ps", null],
  ["llm.nothing", "LLM has no nothing"],
  ["LLM.load", null],
  ["kvCache.nothing", "nothing is called kvCache.nothing"],
  ["kvCache.poolBytes", null],
  ['device: "auto"', null],
  ["defineTool", null],
])("a planted %s is judged: %s", (word, problem) => {
  expect(missing(word)).toBe(problem);
});
