/** Plans as commands: which rows they compute, read, sample and search; and what comes of results. */
import { describe, expect, test } from "vitest";
import type { StepCommand } from "../../src/engine/loop/step-command.ts";
import { MovesFailed } from "../../src/engine/loop/step-executor.ts";
import { tokenBytesOf } from "../support/token-bytes.ts";
import { CloningExecutor } from "./cloning-executor.ts";
import { broken, pretendGrammars } from "./pretend-grammars.ts";
import { ScriptedEngine, type ScriptedOptions, tokensOf } from "./scripted-engine.ts";

/** An engine and its commands, as they were when they were given. */
function recordedEngine(options: ScriptedOptions = {}) {
  const recorder: { commands: readonly StepCommand[] } = { commands: [] };
  const scripted = new ScriptedEngine({
    ...options,
    wrap: (script) => {
      const executor = new CloningExecutor(script);
      recorder.commands = executor.commands;
      return executor;
    },
  });
  /** Commands that compute something. */
  const steps = () => recorder.commands.filter(({ tokens }) => tokens > 0);
  return { scripted, recorder, steps };
}

/** The used parts of a command's arrays. */
function used(command: StepCommand | undefined) {
  if (command === undefined) return expect.fail("there is no such command");
  const { tokens, sequences, tables } = command;
  const [group] = tables;
  return {
    tokenIds: [...command.tokenIds.subarray(0, tokens)],
    sources: command.tokenSources === null ? null : [...command.tokenSources.subarray(0, tokens)],
    positions: [...command.positions.subarray(0, tokens)],
    slots: [...(group?.slots.subarray(0, tokens) ?? [])],
    queryStarts: [...command.queryStarts.subarray(0, sequences + 1)],
    contextLengths: [...command.contextLengths.subarray(0, sequences)],
    logitRows: command.logitRows === null ? null : [...command.logitRows],
  };
}

describe("rows", () => {
  test.each([false, true])(
    "[KV80] of a prompt that is computed for another engine are not read: overlapped %s",
    async (overlapSteps) => {
      const { scripted, steps } = recordedEngine({ overlapSteps });
      const ordinary = scripted.add([10, 11, 12], { maxTokens: 3 });
      const only = scripted.add([50, 51, 52, 53, 54], { maxTokens: 1 }, { computesOnly: true });
      const found = await scripted.drain();
      const [both, ...behind] = steps().map(used);
      // Its rows are behind those of the other one, whose last row is the only one that is read.
      expect(both).toMatchObject({ queryStarts: [0, 3, 8], logitRows: [2] });
      expect(steps()[0]?.sampling?.count).toBe(1);
      for (const { tokenIds } of behind) expect(tokenIds).toHaveLength(1);
      expect(tokensOf(found)[`${ordinary}.0`]).toEqual([13, 14, 15]);
      const [end] = found.flatMap(({ outputs }) => outputs.filter(({ key }) => key === only));
      expect(end).toMatchObject({ finishReason: "length" });
      // Its blocks are what is wanted of it.
      scripted.add([50, 51, 52, 53, 54, 55], { maxTokens: 1 });
      const [next] = (await scripted.drain()).flatMap(({ outputs }) => outputs);
      expect(next?.prompt?.cachedTokens).toBe(5);
    },
  );

  test("of prompts and of single tokens are packed side by side, with slots of their blocks", async () => {
    const { scripted, steps } = recordedEngine();
    scripted.add([10, 11, 12, 13, 14], { maxTokens: 2 });
    await scripted.engine.step();
    scripted.add([50, 51], { maxTokens: 1 });
    await scripted.drain();
    const [prompt, mixed] = steps().map(used);
    expect(prompt).toMatchObject({
      tokenIds: [10, 11, 12, 13, 14],
      positions: [0, 1, 2, 3, 4],
      queryStarts: [0, 5],
      contextLengths: [5],
      logitRows: [4],
    });
    expect(mixed).toMatchObject({
      tokenIds: [15, 50, 51],
      sources: null,
      positions: [5, 0, 1],
      queryStarts: [0, 1, 3],
      contextLengths: [6, 2],
      logitRows: [0, 2],
    });
    // Blocks of four: position 5 is behind position 4, in the same block.
    expect(mixed?.slots[0]).toBe((prompt?.slots[4] ?? 0) + 1);
    expect(prompt?.slots.slice(0, 4).map((slot) => slot % 4)).toEqual([0, 1, 2, 3]);
  });

  describe("of a chain", () => {
    /** A sequence of positions 0 to 6, then its step with a looked-up chain, and the tokens. */
    async function chained(rereadTokensMax: number) {
      const { scripted, steps } = recordedEngine({ rereadTokensMax });
      const draftShape = { kind: "lookup", length: 3, width: 1 } as const;
      scripted.add([10, 11, 12, 13, 14, 10, 11], { maxTokens: 6 }, { draftShape });
      const tokens = tokensOf(await scripted.drain());
      return { step: used(steps()[1]), whole: steps()[1], tokens };
    }
    const rows = { tokenIds: [12, 13, 14, 10], positions: [7, 8, 9, 10] };

    test("stay together", async () => {
      const { step, whole, tokens } = await chained(0);
      expect(step).toMatchObject({ ...rows, queryStarts: [0, 4], contextLengths: [11] });
      expect(whole).toMatchObject({
        sequences: 1,
        queryLengthMax: 4,
        logitRows: new Int32Array([0, 1, 2, 3]),
      });
      expect(tokens["1.0"]).toEqual([12, 13, 14, 15, 16, 17]);
    });

    test("are sequences of their own where that lets the device replay the step", async () => {
      const { step, whole, tokens } = await chained(21);
      expect(step).toMatchObject({
        ...rows,
        queryStarts: [0, 1, 2, 3, 4],
        contextLengths: [8, 9, 10, 11],
      });
      expect(whole).toMatchObject({ sequences: 4, queryLengthMax: 1, logitRows: null });
      const [group] = whole?.tables ?? [];
      const width = (group?.blockTables.length ?? 0) / 256;
      const tables = [0, 1, 2, 3].map((row) =>
        [...(group?.blockTables ?? [])].slice(row * width, row * width + 3),
      );
      expect(new Set(tables.map(String)).size).toBe(1);
      expect(tokens["1.0"]).toEqual([12, 13, 14, 15, 16, 17]);
    });

    test("stay together where they would read more of the cache again than is worth it", async () => {
      const { step } = await chained(20);
      expect(step).toMatchObject({ ...rows, queryStarts: [0, 4] });
    });
  });

  /** Scenario 16 of upstream's (SPEC.md of speculative): c prompts beside g chains. */
  test.each([
    { c: 1, g: 0 },
    { c: 0, g: 1 },
    { c: 5, g: 0 },
    { c: 0, g: 5 },
    { c: 1, g: 4 },
    { c: 4, g: 1 },
    { c: 3, g: 2 },
  ])("of $c prompts and $g chains are each their own sequence's", async ({ c, g }) => {
    const { scripted, steps } = recordedEngine({ blocks: 200 });
    const draftShape = { kind: "lookup", length: 3, width: 1 } as const;
    const all: number[][] = [];
    const add = (first: number) => {
      const prompt = [0, 1, 2, 3, 4, 0, 1].map((place) => first + place);
      all.push(prompt);
      scripted.add(prompt, { maxTokens: 6 }, { draftShape });
    };
    for (let chain = 0; chain < g; chain++) add(10 + 20 * chain);
    const outputs = g > 0 ? [await scripted.engine.step()] : [];
    for (let prompt = 0; prompt < c; prompt++) add(110 + 20 * prompt);
    outputs.push(await scripted.engine.step());
    const mixed = used(steps().at(-1));
    const rows = Array.from({ length: g }, (_, chain) => 4 * chain);
    expect(mixed.tokenIds).toEqual([
      ...rows.flatMap((_, chain) => [12, 13, 14, 10].map((token) => token + 20 * chain)),
      ...all.slice(g).flat(),
    ]);
    expect(mixed.logitRows).toEqual([
      ...rows.flatMap((row) => [row, row + 1, row + 2, row + 3]),
      ...Array.from({ length: c }, (_, prompt) => 4 * g + 7 * prompt + 6),
    ]);
    const tokens = tokensOf(
      [...outputs, ...(await scripted.drain())].flatMap((step) => step ?? []),
    );
    all.forEach(([first = 0], place) => {
      expect(tokens[`${place + 1}.0`]).toEqual([2, 3, 4, 5, 6, 7].map((token) => first + token));
    });
  });

  test("that are all sampled are not listed", async () => {
    const { scripted, steps } = recordedEngine();
    for (const first of [10, 50]) scripted.add([first], { maxTokens: 2 });
    await scripted.drain();
    expect(steps().map(({ logitRows, sampling }) => [logitRows, sampling?.count])).toEqual([
      [null, 2],
      [null, 2],
    ]);
  });

  test("of a step ahead name the rows that their tokens are sampled from", async () => {
    const { scripted, steps } = recordedEngine({ overlapSteps: true });
    scripted.add([10], { maxTokens: 2 });
    scripted.add([50], { maxTokens: 2 });
    expect(tokensOf(await scripted.drain())).toEqual({ "1.0": [11, 12], "2.0": [51, 52] });
    expect(steps().map((command) => used(command).sources)).toEqual([null, [0, 1]]);
    expect(steps().map((command) => used(command).positions)).toEqual([
      [0, 0],
      [1, 1],
    ]);
  });

  test("of samples of one prompt are read once for each, with seeds of their own", async () => {
    const { scripted, steps } = recordedEngine();
    scripted.add([10, 11, 12], { n: 3, temperature: 1, topK: 5, maxTokens: 1 });
    await scripted.drain();
    const [command] = steps();
    expect(used(command).logitRows).toEqual([2, 2, 2]);
    const sampling = command?.sampling ?? expect.fail();
    expect([...sampling.seeds.subarray(0, 6)]).toEqual([0, 0, 1, 0, 2, 0]);
    expect([...sampling.topK.subarray(0, 3)]).toEqual([5, 5, 5]);
    expect([...sampling.positions.subarray(0, 3)]).toEqual([3, 3, 3]);
    expect(sampling).toMatchObject({ count: 3, logprobs: null, edited: false });
  });

  test("of beams stand behind those that are sampled", async () => {
    const { scripted, steps } = recordedEngine();
    scripted.add([10, 11], { beamWidth: 2, n: 2, maxTokens: 1 });
    scripted.add([50], { maxTokens: 1 });
    await scripted.drain();
    const [command] = steps();
    expect(used(command).logitRows).toEqual([2, 1]);
    expect(command?.searches).toMatchObject([{ rows: [1] }]);
    expect(command?.sampling?.count).toBe(1);
  });

  test("of a text to embed are pooled, chunk by chunk, and none is sampled", async () => {
    const { scripted, steps } = recordedEngine({ scheduler: { longPrefillTokensMax: 4 } });
    scripted.addEmbedding([1, 2, 3, 4, 5, 6]);
    const outputs = (await scripted.drain()).flatMap(({ embeddings }) => embeddings);
    // The script's states are ones, and vectors have length 1.
    const half = Math.fround(Math.SQRT1_2);
    expect(outputs.map(({ embedding }) => [...embedding])).toEqual([[half, half]]);
    const pooled = steps().flatMap(({ prompts }) => prompts.map(({ hiddenCount }) => hiddenCount));
    expect(pooled).toEqual([4, 2]);
    expect(steps().map(({ sampling }) => sampling)).toEqual([null, null]);
  });

  test("of a prompt to be scored are scored against the tokens that follow", async () => {
    const { scripted, steps } = recordedEngine({ scheduler: { longPrefillTokensMax: 4 } });
    scripted.add([1, 2, 3, 4, 5, 6], { promptLogprobs: 1, maxTokens: 1 });
    await scripted.drain();
    const found = steps().flatMap(({ prompts }) => prompts);
    expect(found.map(({ logitCount }) => logitCount)).toEqual([4, 2]);
    expect(found.map(({ scores }) => [...(scores?.tokens ?? [])])).toEqual([[2, 3, 4, 5], [6]]);
    // The logits of rows that scores are computed from may be any rows' of the prompt.
    expect(found[1]).toMatchObject({ firstRow: 0, hiddenCount: 0, logits: false });
  });
});

describe("failures", () => {
  test("of one row's edits end its request, and the other rows are sampled", async () => {
    const createCompiler = () => pretendGrammars({ fillBitmask: broken });
    const { scripted, steps } = recordedEngine({ createCompiler });
    scripted.engine.useVocabulary(tokenBytesOf(["a"]));
    const bad = scripted.add([1], { structuredOutput: { regex: "a" }, maxTokens: 3 });
    await expect.poll(() => scripted.engine.stats().waiting).toBe(1);
    const good = scripted.add([50], { maxTokens: 3 });
    const outputs = await scripted.drain();
    expect(outputs.flatMap(({ failures }) => failures)).toMatchObject([{ key: bad }]);
    expect(tokensOf(outputs)[`${good}.0`]).toEqual([51, 52, 53]);
    expect(steps().some(({ sampling }) => sampling?.edited === true)).toBe(true);
  });

  test("of moves end the engine with the move's own error", async () => {
    const cause = new Error("a copy that fails");
    const scripted = new ScriptedEngine({
      wrap: () => ({
        start: async () => {
          throw new MovesFailed(cause);
        },
      }),
    });
    scripted.add([1], { maxTokens: 1 });
    await expect(scripted.engine.step()).rejects.toBe(cause);
  });

  test("before a command is built leave its moves to be carried out", async () => {
    const { scripted, recorder } = recordedEngine({ blocks: 4, cache: { hostBlocks: 8 } });
    scripted.add([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13], { maxTokens: 1 });
    await scripted.drain();
    const { start } = scripted;
    // A task that is no task: no row of the step can be found.
    scripted.start = (work) => start.call(scripted, { ...work, tasks: [] });
    const failing = scripted.add([50, 51, 52, 53, 54, 55, 56, 57, 58], { maxTokens: 1 });
    const [step] = await scripted.drain();
    expect(step?.failures).toMatchObject([{ key: failing }]);
    const moved = recorder.commands.filter(({ moves }) => moves.length > 0);
    expect(moved.map(({ tokens }) => tokens)).toEqual([0]);
    expect(scripted.disk.moved).toBeGreaterThan(0);
  });
});

test.each([false, true])(
  "moves and disk jobs that are cloned keep the books right, with steps ahead: %s",
  async (overlapSteps) => {
    const { scripted } = recordedEngine({
      ...{ blocks: 8, overlapSteps },
      cache: { hostBlocks: 4, diskBlocks: 40 },
    });
    const prompt = (first: number) => Array.from({ length: 17 }, (_, place) => first + place);
    const settle = async () => {
      for (let quiet = 0; quiet < 3; ) {
        scripted.disk.finish();
        const step = await scripted.engine.step();
        scripted.scheduler.audit();
        quiet = step === null && scripted.disk.underWay.length === 0 ? quiet + 1 : 0;
      }
    };
    for (const first of [100, 200, 300, 400]) {
      scripted.add(prompt(first), { maxTokens: 1 });
      await settle();
    }
    expect(scripted.cache.match("", Int32Array.from(prompt(100))).onDisk).toHaveLength(4);
    scripted.add(prompt(100), { maxTokens: 2 });
    await settle();
    expect(scripted.cache.match("", Int32Array.from(prompt(100))).blocks).toHaveLength(4);
    expect(scripted.engine.stats()).toMatchObject({ heldBlocks: 0, running: 0, waiting: 0 });
  },
);
