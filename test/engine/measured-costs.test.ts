import { describe, expect, test } from "vitest";
import { LLM } from "#engine";
import { measureCosts, practise } from "../../src/engine/loop/measured-costs.ts";
import { cpuThreads } from "../support/full.ts";
import { ScriptedEngine } from "./scripted-engine.ts";

/** Measures a scripted engine, whose clock goes on by a millisecond at each look. */
async function measured(msMax: number, overlapSteps = false) {
  const limits = { runningSequencesMax: 16, sampledRowsMax: 64 };
  let now = 0;
  const opened: ScriptedEngine[] = [];
  const found = await measureCosts({
    open: ({ policy, makeDrafter }) => {
      const scripted = new ScriptedEngine({
        ...{ ...limits, blocks: 1024, contextTokensMax: 400, overlapSteps, makeDrafter },
        draftPolicy: policy,
      });
      opened.push(scripted);
      return scripted.engine;
    },
    clock: { nowMs: () => now++ },
    ...{ msMax, sequencesMax: 16, sampledRowsMax: 64, contextTokensMax: 400 },
    ...{ vocabularySize: 900, lookupMax: 7, network: null },
  });
  return { found, books: opened.map(({ scheduler }) => scheduler.stats()) };
}

describe("[SP34] what steps take is measured before any request", () => {
  test.each([false, true])("by sequences and drafted tokens; overlapped: %s", async (overlap) => {
    const { found, books } = await measured(1e6, overlap);
    const sizes = found.others?.map(({ sequences, points }) => [
      sequences,
      ...points.map(({ nodes }) => nodes),
    ]);
    // Of 64 rows; a quarter of the sequences have a draft first.
    expect(sizes).toEqual([
      [1, 0, 1, 3, 7],
      [8, 0, 2, 8, 24, 56],
      [4, 0, 1, 4, 12, 28],
      [16, 0, 4, 16, 48],
      [2, 0, 2, 6, 14],
    ]);
    for (const { points } of found.others ?? []) {
      for (const { ms } of points) expect(ms).toBeGreaterThan(0);
    }
    expect([found.chain, found.tree]).toEqual([[], []]);
    for (const { running, waiting, heldBlocks } of books) {
      expect([running, waiting, heldBlocks]).toEqual([0, 0, 0]);
    }
  });

  test("as far as there is time", async () => {
    const { found, books } = await measured(60);
    expect(found.others?.length).toBeLessThan(5);
    expect(books.map(({ heldBlocks }) => heldBlocks)).toEqual([0]);
    expect((await measured(0)).found.others).toEqual([]);
  });

  test("what is practised leaves nothing", async () => {
    const { engine, scheduler } = new ScriptedEngine({ blocks: 256, runningSequencesMax: 8 });
    const shape = { contextTokensMax: 128, vocabularySize: 900 };
    const draftShape = { kind: "lookup", length: 8, width: 1 } as const;
    let now = 0;
    await practise({ ...shape, engine, draftShape, clock: { nowMs: () => now++ }, msMax: 1000 });
    expect(scheduler.stats()).toMatchObject({ running: 0, waiting: 0, heldBlocks: 0 });
    expect(engine.keys).toEqual([]);
  });

  test("by more sequences than requests may wait", async () => {
    const llm = await LLM.load("test/fixtures/models/llama", {
      ...{ device: "reference", engineThread: false },
      ...{ speculative: { kind: "lookup" }, scheduler: { waitingSequencesMax: 1 } },
    });
    expect(llm.loadPhases.at(-1)?.name).toBe("drafts");
    await llm.close();
  });

  test("nothing of it is counted, cached or announced, and outputs are the same", async () => {
    const load = (speculative: object) =>
      LLM.load("models/pocket", {
        ...{ device: "cpu", dtype: "float32", threads: cpuThreads, engineThread: false },
        ...{ speculative, kvCache: { eventBufferMax: 100 } },
      });
    const prompts = ["1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2,", "A hash table stores"];
    const outputsOf = async (llm: LLM) => {
      const results = await llm.generate(prompts, { temperature: 0, maxTokens: 40 });
      return results.map(({ completions }) => completions[0]?.tokenIds);
    };
    const plain = await load({ kind: "off" });
    const drafted = await load({ kind: "auto", measureMs: 300 });
    try {
      const { steps, drafts, cachedBlocks, heldBlocks } = drafted.stats();
      expect([steps, drafts, cachedBlocks, heldBlocks]).toEqual([0, 0, 0, 0]);
      expect(drafted.loadPhases.at(-1)?.name).toBe("drafts");
      expect(plain.loadPhases.at(-1)?.name).toBe("graphs");
      expect(await outputsOf(drafted)).toEqual(await outputsOf(plain));
    } finally {
      await plain.close();
      await drafted.close();
    }
  });
});
