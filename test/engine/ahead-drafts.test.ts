/** [SP30] Drafts that begin on the device before the host has read what was sampled. */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type GenerateOptions, LLM, type LoadOptions } from "#engine";
import { RowDrafter } from "../../src/engine/forward/row-drafter.ts";
import { cpuThreads, eachNth } from "../support/full.ts";

const prompts = [
  "A hash table stores pairs of keys and values. To find a value,",
  'def read_lines(path):\n    """Return the lines of a file."""\n',
  "List of numbers: 1, 2, 3, 4, 5, 6, 7,",
  "The bridge",
];
const maxTokens = 40;
const shape = { kind: "redrafter", width: 1, lengthMax: 4 } as const;

let waiting: LLM;
let ahead: LLM;
const begun = vi.spyOn(RowDrafter.prototype, "ahead");

function load(options: Partial<LoadOptions>): Promise<LLM> {
  return LLM.load("models/pocket", {
    ...{ device: "cpu", dtype: "float32", threads: cpuThreads, engineThread: false },
    // All that is drafted is verified, however long steps take here.
    speculative: { ...shape, adaptive: false },
    ...options,
  });
}

beforeAll(async () => {
  waiting = await load({ overlapSteps: false });
  ahead = await load({ overlapSteps: true });
});

afterAll(async () => {
  begun.mockRestore();
  await waiting.close();
  await ahead.close();
});

/** Outputs, and how much was drafted and accepted for them. */
async function run(llm: LLM, options: GenerateOptions) {
  const before = llm.stats();
  const results = await llm.generate(prompts, { temperature: 0, maxTokens, ...options });
  const after = llm.stats();
  return {
    outputs: results.map(({ completions }) => completions.map(({ tokenIds }) => tokenIds)),
    steps: after.steps - before.steps,
    drafted: after.draftedTokens - before.draftedTokens,
    accepted: after.acceptedTokens - before.acceptedTokens,
  };
}

/** Drafts that the device began since the last call, by their answers. */
function takeBegun(): { readonly made: number; readonly left: number } {
  const made = begun.mock.results.filter(({ value }) => value !== null).length;
  const left = begun.mock.results.length - made;
  begun.mockClear();
  return { made, left };
}

describe("[SP30] drafts behind what the device accepts are those behind what the host accepts", () => {
  test.each<[string, GenerateOptions]>([
    ["greedy", {}],
    ["sampled", { temperature: 0.8, topP: 0.95, seed: 5 }],
    ["three of each", { temperature: 1, seed: 7, n: 3 }],
    ["with log-probabilities", { logprobs: 2 }],
    ["of two tokens", { speculative: { kind: "redrafter", width: 1, length: 2 } }],
    ["up to a stop string", { stop: ["\n", "a"] }],
  ])("%s", async (_, options) => {
    const expected = await run(waiting, options);
    // It takes steps that overlap: without them the host drafts.
    expect(takeBegun().made).toBe(0);
    const found = await run(ahead, options);
    expect(found).toEqual(expected);
    expect(found.accepted).toBeGreaterThan(20);
    expect(takeBegun().made).toBeGreaterThan(5);
  });
});

test("[SP30] the host drafts where it has a part in what is sampled", async () => {
  const options = { frequencyPenalty: 0.2 };
  const expected = await run(waiting, options);
  expect(await run(ahead, options)).toEqual(expected);
  expect(begun).not.toHaveBeenCalled();
});

describe.each(eachNth(2, ["redrafter", "medusa"] as const))("[SP30] trees of a %s", (kind) => {
  test("are accepted and drafted behind on the device as on the host", async () => {
    const trees = { speculative: { ...shape, kind, width: 4, adaptive: false } };
    await using waitingTrees = await load({ ...trees, overlapSteps: false });
    await using aheadTrees = await load({ ...trees, overlapSteps: true });
    for (const options of [{}, { temperature: 0.8, topP: 0.95, seed: 5 }, { logprobs: 2 }]) {
      const expected = await run(waitingTrees, options);
      begun.mockClear();
      const found = await run(aheadTrees, options);
      expect(found.outputs).toEqual(expected.outputs);
      // Branches that begin alike are one path where the host makes a tree, so that the last trees
      // of an output, for which there is less room, are cut elsewhere.
      expect(found.drafted).toBeGreaterThanOrEqual(expected.drafted);
      expect(Math.abs(found.steps - expected.steps)).toBeLessThanOrEqual(2);
      expect(Math.abs(found.accepted - expected.accepted)).toBeLessThanOrEqual(3);
      expect(found.accepted).toBeGreaterThan(20);
      expect(takeBegun().made).toBeGreaterThan(5);
    }
  });
});

test("[SP30] requests that end, or go away, leave nothing", async () => {
  const controller = new AbortController();
  const signal = controller.signal;
  const aborted = ahead.generate(prompts, { temperature: 0, maxTokens: 400, signal });
  const short = await Promise.all([1, 2, 3, 7].map((length) => run(ahead, { maxTokens: length })));
  controller.abort();
  await expect(aborted).rejects.toThrow();
  for (const [at, length] of [1, 2, 3, 7].entries()) {
    const plain = await run(waiting, { maxTokens: length });
    expect(short[at]?.outputs).toEqual(plain.outputs);
  }
  expect(ahead.stats()).toMatchObject({ heldBlocks: 0, running: 0, waiting: 0 });
});
