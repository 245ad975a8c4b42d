/**
 * Every example, and every TypeScript block of README.md and docs, compiles against the build. The
 * examples run and print what they promise; so do the blocks that are whole programs. Parts of
 * programs run in turn, with the bundled model and what they leave out around them. Blocks that are
 * not run say why where they stand (document-blocks.ts).
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MilvusLite, noMilvus } from "../rag/stores/milvus-lite.ts";
import { full } from "../support/full.ts";
import { type Block, blocksOfFile, documentPaths } from "./document-blocks.ts";
import { type Printed, type UserProject, userProject } from "./user-project.ts";

const RAG =
  /^1 document, 2 chunks\n18,240 \[\d\]\nfrom towns\.md under Sarvik\n.*Ilka Brand.*\n\d+ of \d+ prompt tokens were cached\n$/;

const outputs: Readonly<Record<string, RegExp>> = {
  "anthropic-1": /^text end_turn\n0 \d+ \d+\n$/,
  "from-node-llama-cpp-1": /^I am Pocket.*\n\d+ of \d+ prompt tokens were cached\n$/s,
  generate: /^A cache is … \(0, length\): .*The function returns … \(1, /s,
  "kv-cache": /^What is a cache\? 0 of .*\n0 created.* stored 16 tokens of priority 90\n.* copied/s,
  "ollama-1": /^pocket stop\nI am Pocket.*\n$/,
  "openai-client": /^I am Pocket/,
  // Without a server; with one below.
  milvus: /^skipped: MILVUS must be a server's address, e.g. \S+\n$/,
  rag: RAG,
  "responses-1": /^\d+ of \d+ prompt tokens were cached\n$/,
  "responses-2": /^lookup string boolean\n$/,
  stream: /^412 metres\n\(stop\)\n$/,
  "structured-output": /^.+ from .+ is 34\n$/,
  tools:
    /^calls get_height\ngets \{"mountain":"\w+","metres":2\d{3}\}\n2 answers, \d+ prompt tokens were cached\n$/,
  "typescript-1": /^pocket 2048\n$/,
  "typescript-10": /^200\n$/,
  "ai-sdk-1": /^[^\n]+\n\d+ of \d+ prompt tokens were cached\n$/,
  "README-1": /^I am Pocket.*\n\d+ of \d+ prompt tokens were cached\n$/,
};

const examples = readdirSync("examples").filter((file) => file.endsWith(".ts"));

/** What the blocks of a document that are parts of a program have around them. */
const AROUND = `import { bundledModel, type GenerateOptions, type KvEventItem, LLM } from "perigee";
export { defineTool, EngineError } from "perigee";
// That its vectors are made of hidden states is said elsewhere.
export const llm = await LLM.load(bundledModel, { onWarning: () => {} });
export const prompt = "A cache is";
export const prompts: readonly string[] = [prompt, "A mutex is"];
export const { signal } = new AbortController();
export const options: GenerateOptions = { maxTokens: 8 };
export class Enough extends Error {}
/** Ends a loop that would wait for ever. */
export function update(item: KvEventItem): void {
  throw new Enough(typeof item);
}
`;
const SURROUNDINGS = `import {
  defineTool, EngineError, llm, options, prompt, prompts, signal, update
} from "./around.js";
`;

/** A program that runs the parts, and tells which one fails. */
function partsProgram(names: readonly string[]): string {
  const runs = names.map((name) => `await part("${name}", () => import("./${name}.js"));`);
  return `import { Enough, llm } from "./around.js";
async function part(name: string, run: () => Promise<unknown>): Promise<void> {
  try {
    await run();
  } catch (error) {
    if (!(error instanceof Enough)) throw new Error(name + " fails", { cause: error });
  }
  console.log("-- " + name);
}
${runs.join("\n")}
await llm.close();
`;
}

/** The same for the AI SDK's page. */
const AI_SURROUNDINGS = `import { type LanguageModel, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
declare const model: LanguageModel;
declare const prompt: string;
`;

const tsBlocks = new Map(
  documentPaths().flatMap((path) => {
    const name = path.replace(/^docs\//, "").replace(/\.md$/, "");
    const blocks = blocksOfFile(path).filter(({ kind }) => kind === "ts");
    return blocks.map((block, index): [string, Block] => [`${name}-${index + 1}`, block]);
  }),
);

const isWhole = ({ code }: Block): boolean => code.includes("import ");

/** As it compiles; the model that has to be downloaded is replaced by the bundled one. */
function sourceOf(name: string, block: Block): string {
  if (isWhole(block)) return block.code.replace('"Qwen/Qwen2.5-0.5B-Instruct"', "");
  return `${ofSdk(name) ? AI_SURROUNDINGS : SURROUNDINGS}${block.code}`;
}

const blocks = new Map([...tsBlocks].map(([name, block]) => [name, sourceOf(name, block)]));
const run = [...tsBlocks].filter(([, { notRun }]) => notRun === null);
const wholeBlocks = run.filter(([, block]) => isWhole(block)).map(([name]) => name);
const parts = run.filter(([, block]) => !isWhole(block)).map(([name]) => name);
/** Declarations of the SDK are of browsers, too: they compile where libraries are not checked. */
function ofSdk(name: string): boolean {
  return name.startsWith("ai-sdk-");
}
const programs = Object.keys(outputs).filter((name) => !ofSdk(name));

test("the outputs of all examples and whole blocks are known here", () => {
  const names = [...examples.map((file) => file.replace(/\.ts$/, "")), ...wholeBlocks];
  expect(names.sort()).toEqual(Object.keys(outputs).sort());
  expect(parts.length).toBeGreaterThan(8);
});

// They import the package by its name: built code.
describe.runIf(existsSync("dist/index.js"))("examples and documents", () => {
  let project: UserProject;
  let sdkProject: UserProject;
  beforeAll(async () => {
    const files = examples.map((file): [string, string] => [
      file.replace(/\.ts$/, ""),
      readFileSync(`examples/${file}`, "utf8"),
    ]);
    const others = [...blocks].filter(([name]) => !ofSdk(name));
    const whole: [string, string][] = [
      ["around", AROUND],
      ["parts", partsProgram(parts)],
    ];
    project = await userProject(new Map([...files, ...others, ...whole]));
    const ofPage = new Map([...blocks].filter(([name]) => ofSdk(name)));
    sdkProject = await userProject(ofPage, ["--skipLibCheck"]);
  });
  afterAll(() => {
    project.remove();
    sdkProject.remove();
  });

  test("compile", () => {
    expect(project.problems).toBe("");
    expect(sdkProject.problems).toBe("");
  });

  test.skipIf(noMilvus !== null)(`milvus answers from Milvus (${noMilvus ?? "Lite"})`, async () => {
    const server = await MilvusLite.start();
    try {
      const { stdout, stderr } = await project.run("milvus", { MILVUS: server.url });
      expect(stderr).toBe("");
      expect(stdout).toMatch(/^.*machine's intelligence could be tested.* \[\d\]\n\[1\] /);
    } finally {
      await server.close();
    }
  });

  // Importing the package takes longer than most of them: in the short run one process does it.
  let together: Promise<ReadonlyMap<string, Printed>> | null = null;
  async function printedBy(name: string): Promise<Printed | undefined> {
    if (ofSdk(name)) return await sdkProject.run(name);
    if (full) return await project.run(name);
    together ??= project.runTogether(programs);
    return (await together).get(name);
  }

  test.for(Object.entries(outputs))("%s runs", async ([name, output]) => {
    const printed = await printedBy(name);
    expect(printed?.stderr).toBe("");
    expect(printed?.stdout).toMatch(output);
  });

  test("parts of programs run", async () => {
    const { stdout, stderr } = await project.run("parts");
    expect(stderr).toBe("");
    expect([...stdout.matchAll(/^-- (.*)$/gm)].map(([, name]) => name)).toEqual(parts);
    expect(stdout).toContain("INVALID_ARGUMENT temperature\n");
  });
});
