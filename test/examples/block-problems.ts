/** What is wrong with a code block, without running it. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parser as pythonParser } from "@lezer/python";
import { parseDocument } from "yaml";
import { perigeeInside } from "../cli/perigee.ts";
import type { Block } from "./document-blocks.ts";
import { isRoute } from "./served-routes.ts";
import { perigeeWords, shownCommands, simpleCommands } from "./shell-lines.ts";

/** Lines that a terminal would run: they belong into a block that is tested as such. */
const COMMAND = /^(\$ |npx |npm |perigee |curl |node )/m;

/** One line each; none for a block that is well-formed. TypeScript's are the compiler's business. */
export async function problemsOf(block: Block): Promise<string[]> {
  const { kind, code, notRun } = block;
  switch (kind) {
    case null:
      return ["has a language that no test knows, or only an indent"];
    case "text":
      return COMMAND.test(code) ? ["is text, but holds commands: leave out the language"] : [];
    case "json":
      return jsonProblems(code);
    case "yaml":
      return parseDocument(code).errors.map(({ message }) => message);
    case "python":
      return [...pythonProblems(code), ...(notRun === null ? ["Python is not run: say why"] : [])];
    case "shell":
      return await shellProblems(code);
    case "ts":
      return [];
  }
}

function jsonProblems(code: string): string[] {
  try {
    JSON.parse(code);
    return [];
  } catch (error) {
    return [String(error)];
  }
}

function pythonProblems(code: string): string[] {
  const problems: string[] = [];
  pythonParser.parse(code).iterate({
    enter: ({ type, from }) => {
      if (type.isError) problems.push(`no Python at character ${from}`);
    },
  });
  return problems;
}

async function shellProblems(code: string): Promise<string[]> {
  const commands = shownCommands(code);
  if (commands.length === 0) return ["holds no command: is it text?"];
  const problems: string[] = [];
  for (const { command, line } of commands) {
    const found = syntaxProblems(command);
    for (const words of simpleCommands(command)) found.push(...(await wordProblems(words)));
    problems.push(...found.map((problem) => `line ${line}: ${problem}`));
  }
  return problems;
}

function syntaxProblems(command: string): string[] {
  const { status, stderr } = spawnSync("bash", ["-n"], { input: command, encoding: "utf8" });
  return status === 0 ? [] : [stderr.trim()];
}

async function wordProblems(words: readonly string[]): Promise<string[]> {
  const own = perigeeWords(words);
  if (own !== null) return await perigeeProblems(own);
  const [program, first = "", second = ""] = words;
  if (program === "npm") return npmProblems(first, second);
  if (program === "node") return scriptProblems(first, words.slice(2));
  if (program === "curl") return curlProblems(words.slice(1));
  if (program === "npx" && first === "vitest") {
    return words.slice(3).flatMap((path) => (existsSync(path) ? [] : [`there is no ${path}`]));
  }
  return [];
}

/** Commands whose flags have schemas, which the check of a file of settings asks for ranges. */
const SCHEMA_COMMANDS = new Set(["serve", "worker", "route", "generate", "chat"]);
const checked = new Map<string, Promise<string[]>>();

/** What the program's own parser and the schemas of its settings say; nothing is started. */
export function perigeeProblems(words: readonly string[]): Promise<string[]> {
  const key = words.join("\0");
  const known = checked.get(key) ?? settingProblems(words);
  checked.set(key, known);
  return known;
}

async function settingProblems(words: readonly string[]): Promise<string[]> {
  // A file of settings is not here.
  const plain = words.filter((word, place) => {
    return word !== "--config" && words[place - 1] !== "--config" && word !== "--print-config";
  });
  if (plain[0] === "config" || plain.length === 0) return [];
  const parsed = await perigeeInside([...plain, "--print-config"]);
  if (parsed.code !== 0) return [parsed.stderr.trim()];
  if (!SCHEMA_COMMANDS.has(plain[0] ?? "")) return [];
  const folder = mkdtempSync(join(tmpdir(), "perigee-settings-"));
  try {
    const file = join(folder, "perigee.yaml");
    writeFileSync(file, parsed.stdout);
    const valid = await perigeeInside(["config", "check", file]);
    return valid.code === 0 ? [] : [valid.stderr.trim()];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Commands of npm that are no scripts of ours. */
const NPM = new Set(["ci", "i", "install", "pack", "rebuild", "test", "start"]);

function npmProblems(command: string, script: string): string[] {
  const { scripts } = JSON.parse(readFileSync("package.json", "utf8"));
  const name = command === "run" ? script : command;
  if (command !== "run" && NPM.has(command)) return [];
  return Object.hasOwn(scripts, name) ? [] : [`package.json has no script ${name}`];
}

/** A script of ours must be there, and know its flags. */
function scriptProblems(script: string, words: readonly string[]): string[] {
  if (script.startsWith("dist/") || !/\.m?[jt]s$/.test(script)) return [];
  if (!existsSync(script)) return [`there is no ${script}`];
  const source = readFileSync(script, "utf8");
  return words
    .filter((word) => word.startsWith("--"))
    .map((word) => word.slice(2).split("=")[0] ?? "")
    .filter((name) => !new RegExp(`["\\s-]${name}\\b|\\b${name}:`).test(source))
    .map((name) => `${script} does not know --${name}`);
}

function curlProblems(words: readonly string[]): string[] {
  const addresses = words.filter((word) => /^(https?:\/\/|\$U\/|…\/)/.test(word));
  if (addresses.length !== 1) return ["curl needs one address"];
  const path = (addresses[0] ?? "").replace(/^(https?:\/\/[^/]*|\$U|…)/, "").replace(/\?.*/, "");
  const whole = addresses[0]?.startsWith("$U") ? `/v1${path}` : path;
  return isRoute(whole) ? [] : [`no server has the route ${whole}`];
}
