/**
 * Every example, and every TypeScript block of README.md and docs, compiles against the build. The
 * examples run and print what they promise; so do the blocks that are whole programs.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MilvusLite, noMilvus } from "../rag/stores/milvus-lite.ts";
import { full } from "../support/full.ts";
import { type Printed, type UserProject, userProject } from "./user-project.ts";

const RAG =
  /^1 document, 2 chunks\n18,240 \[\d\]\nfrom towns\.md under Sarvik\n.*Ilka Brand.*\n\d+ of \d+ prompt tokens were cached\n$/;

const outputs: Readonly<Record<string, RegExp>> = {
  "anthropic-1": /^text end_turn\n0 \d+ \d+\n$/,
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

/** They compile; running them needs documents, or a server with vector stores (test/rag/http). */
const notRun: readonly string[] = ["rag-1", "vector-stores-1", "ai-sdk-2"];

const examples = readdirSync("examples").filter((file) => file.endsWith(".ts"));
const documents = ["README.md", ...readdirSync("docs").map((file) => `docs/${file}`)].filter(
  (path) => path.endsWith(".md"),
);

/** What the blocks of a document that are parts of a program have around them. */
const SURROUNDINGS = `import { defineTool, EngineError, type GenerateOptions, type KvEventItem, type LLM } from "perigee";
declare const llm: LLM;
declare const prompt: string;
declare const prompts: readonly string[];
declare const signal: AbortSignal;
declare function update(item: KvEventItem): void;
declare const options: GenerateOptions;
`;

/** The same for the AI SDK's page. */
const AI_SURROUNDINGS = `import { type LanguageModel, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
declare const model: LanguageModel;
declare const prompt: string;
`;

/** The blocks of a document; the model that has to be downloaded is replaced by the bundled one. */
function blocksOf(path: string): [string, string][] {
  const name = path.replace(/^docs\//, "").replace(/\.md$/, "");
  const blocks = [...readFileSync(path, "utf8").matchAll(/^```ts\n([\s\S]*?)^```$/gm)];
  return blocks.map(([, code = ""], index) => {
    const isWhole = code.includes("import ");
    const program = code.replace('"Qwen/Qwen2.5-0.5B-Instruct"', "");
    const around = name === "ai-sdk" ? AI_SURROUNDINGS : SURROUNDINGS;
    return [`${name}-${index + 1}`, isWhole ? program : around + code];
  });
}

const blocks = new Map(documents.flatMap(blocksOf));
const isWhole = (code: string): boolean =>
  !code.startsWith(SURROUNDINGS) && !code.startsWith(AI_SURROUNDINGS);
const wholeBlocks = [...blocks].filter(([, code]) => isWhole(code));
/** Declarations of the SDK are of browsers, too: they compile where libraries are not checked. */
const ofSdk = (name: string): boolean => name.startsWith("ai-sdk-");
const programs = Object.keys(outputs).filter((name) => !ofSdk(name));

test("the outputs of all examples and whole blocks are known here", () => {
  const names = [
    ...examples.map((file) => file.replace(/\.ts$/, "")),
    ...wholeBlocks.map(([name]) => name),
  ];
  expect(names.sort()).toEqual([...Object.keys(outputs), ...notRun].sort());
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
    project = await userProject(new Map([...files, ...others]));
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
});
