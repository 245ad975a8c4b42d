/** What parity runs ask an engine, and what a plain engine answers, one request at a time. */
import { expect } from "vitest";
import { type GenerateOptions, LLM, type LoadOptions } from "#engine";
import { cpuThreads } from "../../support/full.ts";
import { fixturePath, openRecordedModel } from "../recorded-model.ts";

/** One request. */
export interface Ask {
  readonly promptTokenIds: readonly number[];
  readonly options: GenerateOptions;
}

/** The tokens of all completions of one request. */
export type Answer = readonly (readonly number[])[];

/** What a fixture is asked. */
export interface AskList {
  /** Greedy, n = 3, beams, retention: requests that share much of their prompts. */
  readonly first: readonly Ask[];
  /** Each continues the answer to one of the greedy ones. */
  readonly secondTurns: readonly Ask[];
}

/** A fixture's questions and the answers of an engine that reuses nothing. */
export interface PlainRun extends AskList {
  readonly answers: readonly Answer[];
  readonly secondAnswers: readonly Answer[];
  readonly bytesPerBlock: number;
  /** The smallest pool that takes all of it. */
  readonly poolBlocks: number;
  /** Groups of layers: the same tokens have a block in each. */
  readonly groups: number;
}

/** Small blocks: short prompts have many. */
export const BLOCK_TOKENS = 4;
export const NEW_TOKENS = 24;
/** Where the parted prompts differ from the longest one: two tokens into a block. */
export const PARTED_AT = 50;

/** Most time that a busy machine's disk takes. */
const WRITES_MS_MAX = 20_000;

/** The recordings masked the end token until the last step. */
export const GREEDY: GenerateOptions = {
  temperature: 0,
  maxTokens: NEW_TOKENS,
  minTokens: NEW_TOKENS,
};
/** Three samples of a prompt whose last block holds one token. */
export const SAMPLED: GenerateOptions = {
  temperature: 1,
  seed: 7,
  n: 3,
  maxTokens: 16,
  ignoreEos: true,
};
/** As recorded. */
export const BEAMS: GenerateOptions = { beamWidth: 4, n: 4, maxTokens: 12, minTokens: 12 };

/** Blocks that the longest prompt and its answer fill, less the last token: never computed. */
const SMALLEST_POOL_BLOCKS = Math.ceil((90 + NEW_TOKENS - 1) / BLOCK_TOKENS);
/** With a window the beams need most: three windows with their sinks, and a whole one. */
const WINDOWED_POOL_BLOCKS = 3 * 10 + 12;

/** Load options that parity runs vary. */
export type RunOptions = Pick<LoadOptions, "kvCache" | "scheduler">;

/** A device and a fixture. */
export interface Subject {
  readonly device: "reference" | "cpu" | "cuda";
  /** Where that device finds its libraries. */
  readonly cuda?: NonNullable<LoadOptions["cuda"]>;
  readonly fixture: string;
  /** Whether steps start before the ones before them end. Default: where the device can. */
  readonly overlapSteps?: boolean;
  /** Format of keys and values. Default: float32. */
  readonly dtype?: "float32" | "int8" | "fp8" | "float16";
  /** What a token sees, beside what the model says. Default: nothing more is said. */
  readonly streaming?: { readonly attentionWindow: number; readonly attentionSinks: number };
}

/** Loads, runs, and checks that nothing is held in any level at the end. */
export async function withEngine<T>(
  { device, cuda = {}, fixture, dtype = "float32", streaming, overlapSteps }: Subject,
  options: RunOptions,
  run: (llm: LLM) => Promise<T>,
): Promise<T> {
  await using llm = await LLM.load(fixturePath(fixture), {
    device,
    cuda,
    overlapSteps: overlapSteps ?? null,
    dtype: "float32",
    threads: cpuThreads,
    engineThread: false,
    kvCache: { blockTokens: BLOCK_TOKENS, dtype, ...streaming, ...options.kvCache },
    scheduler: { runningSequencesMax: 16, stepTokensMax: 256, ...options.scheduler },
  });
  const result = await run(llm);
  await expectAtRest(llm);
  expect(llm.stats()).toMatchObject({ running: 0, waiting: 0 });
  return result;
}

/** Nothing runs, and what was to be written to disk is: blocks stay held until then. */
export async function expectAtRest(llm: LLM): Promise<void> {
  await expect.poll(() => heldBlocks(llm), { timeout: WRITES_MS_MAX, interval: 5 }).toBe(0);
}

/** One request's tokens. */
export async function answerTo(llm: LLM, { promptTokenIds, options }: Ask): Promise<Answer> {
  const [result] = await llm.generate({ promptTokenIds }, options);
  return (result?.completions ?? []).map(({ tokenIds }) => tokenIds);
}

/** All at once. */
export function answersTo(llm: LLM, asks: readonly Ask[]): Promise<Answer[]> {
  return Promise.all(asks.map((ask) => answerTo(llm, ask)));
}

/** How many prompt tokens one request did not compute. */
export async function cachedTokensOf(llm: LLM, { promptTokenIds, options }: Ask): Promise<number> {
  const [result] = await llm.generate({ promptTokenIds }, options);
  return result?.cachedTokens ?? 0;
}

const plainRuns = new Map<string, Promise<PlainRun>>();

/** Made once per subject: every request alone, step by step, nothing reused, samples one by one. */
export function plainRun(overlapping: Subject): Promise<PlainRun> {
  const subject = { ...overlapping, overlapSteps: false };
  const name = JSON.stringify(subject);
  const known = plainRuns.get(name) ?? runPlainly(subject);
  plainRuns.set(name, known);
  return known;
}

function runPlainly(subject: Subject): Promise<PlainRun> {
  return withEngine(subject, { kvCache: { prefixCaching: false } }, async (llm) => {
    const prompts = openRecordedModel(subject.fixture).cases.map(({ prompt }) => prompt);
    const first = firstAsks(prompts);
    const answers: Answer[] = [];
    for (const ask of first) answers.push(await answerAlone(llm, ask));
    const secondTurns = [1, 2].map((place) => secondTurn(first[place], answers[place]));
    const secondAnswers: Answer[] = [];
    for (const ask of secondTurns) secondAnswers.push(await answerAlone(llm, ask));
    const { bytesPerBlock, attentionWindow, groupWindows } = llm.info;
    const groups = groupWindows.length;
    const hasWindow = attentionWindow !== null || groupWindows.some((window) => window !== null);
    const ofGroup = hasWindow ? WINDOWED_POOL_BLOCKS : SMALLEST_POOL_BLOCKS;
    const poolBlocks = ofGroup * groups;
    return { first, secondTurns, answers, secondAnswers, bytesPerBlock, poolBlocks, groups };
  });
}

/** Sample i is the request with seed + i and one sequence. */
async function answerAlone(llm: LLM, ask: Ask): Promise<Answer> {
  const { n = 1, beamWidth = null, seed } = ask.options;
  if (n === 1 || beamWidth !== null || typeof seed !== "number") return answerTo(llm, ask);
  const samples: Answer[] = [];
  for (let place = 0; place < n; place++) {
    const options = { ...ask.options, n: 1, seed: seed + place };
    samples.push(await answerTo(llm, { ...ask, options }));
  }
  return samples.flat();
}

function firstAsks(prompts: readonly (readonly number[])[]): Ask[] {
  const middle = prompts[2] ?? [];
  const long = prompts[3] ?? [];
  const kept = { ranges: [{ start: 0, priority: 90 }], decodePriority: 10 };
  const dropped = { ranges: [{ start: 0, end: 20, priority: 0 }] };
  const asks: Ask[] = [
    ...prompts.map((promptTokenIds) => ({ promptTokenIds, options: GREEDY })),
    { promptTokenIds: middle, options: SAMPLED },
    { promptTokenIds: middle, options: BEAMS },
    { promptTokenIds: parted(long, PARTED_AT), options: { ...GREEDY, retention: kept } },
    { promptTokenIds: parted(long, PARTED_AT + 5), options: { ...GREEDY, retention: dropped } },
    { promptTokenIds: long, options: { ...SAMPLED, seed: 40, n: 2 } },
  ];
  // Only the policy `priority` looks at it.
  return asks.map((ask, place) => ({ ...ask, options: { ...ask.options, priority: place % 3 } }));
}

/** The same prompt up to a position, and other tokens there. */
function parted(prompt: readonly number[], at: number): number[] {
  return prompt.map((token, place) => (place >= at && place < at + 3 ? (token + 11) % 300 : token));
}

function secondTurn(ask: Ask | undefined, answer: Answer | undefined): Ask {
  const promptTokenIds = [...(ask?.promptTokenIds ?? []), ...(answer?.[0] ?? []), 5, 6, 7];
  return { promptTokenIds, options: GREEDY };
}

function heldBlocks(llm: LLM): number {
  return (llm.stats().cache?.levels ?? []).reduce((sum, { held }) => sum + held, 0);
}
