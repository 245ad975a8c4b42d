/** Requests of several sequences: who leaves when, and what that does to the others. */
import { describe, expect, test } from "vitest";
import type { StepOutput } from "../../src/engine/protocol/protocol.ts";
import { ScriptedEngine, tokensOf } from "./scripted-engine.ts";

/** Two full blocks and one token: the first sampled token is written into a shared block. */
const PROMPT = [1, 2, 3, 4, 5, 6, 7, 8, 9];
const IDLE = { heldBlocks: 0, running: 0, waiting: 0 };
/** The prompt in three steps. */
const inPieces = { scheduler: { longPrefillTokensMax: 4 } };

function expectIdle(scripted: ScriptedEngine): void {
  scripted.scheduler.audit();
  expect(scripted.engine.stats()).toMatchObject(IDLE);
}

/** Which sequences' news came with what is known of the prompt. */
function promptTellers(steps: readonly StepOutput[]): number[] {
  const outputs = steps.flatMap((step) => step.outputs);
  return outputs.filter(({ prompt }) => prompt !== null).map(({ index }) => index);
}

describe("samples", () => {
  test("share a prompt's blocks, and each copies the last one when it goes on", async () => {
    const scripted = new ScriptedEngine();
    const key = scripted.add(PROMPT, { n: 3, maxTokens: 4 });
    await scripted.engine.step();
    expect(scripted.scheduler.stats()).toMatchObject({ heldBlocks: 3, forks: 2 });
    await scripted.engine.step();
    expect(scripted.scheduler.stats().heldBlocks).toBe(2 + 3);
    expect(scripted.cache.stats().copiedBlocks).toBe(2);
    const tokens = tokensOf(await scripted.drain());
    for (const index of [0, 1, 2]) expect(tokens[`${key}.${index}`]).toEqual([12, 13]);
    expectIdle(scripted);
  });

  test("go on when the one that computes their prompt is given up in the middle of it", async () => {
    const scripted = new ScriptedEngine(inPieces);
    const key = scripted.add(PROMPT, { n: 3, maxTokens: 2 });
    await scripted.engine.step();
    scripted.engine.abort(key, 0);
    const steps = await scripted.drain();
    expect(tokensOf(steps)).toEqual({ [`${key}.1`]: [10, 11], [`${key}.2`]: [10, 11] });
    expect(promptTellers(steps)).toEqual([1]);
    // Its successor found the first piece.
    expect(scripted.engine.stats().prefixHitTokens).toBe(4);
    expectIdle(scripted);
  });

  test("go on when it is aborted in the very step that samples their first tokens", async () => {
    const scripted = new ScriptedEngine();
    const key = scripted.add(PROMPT, { n: 3, maxTokens: 3 });
    scripted.duringStep = () => {
      scripted.duringStep = () => {};
      scripted.engine.abort(key, 0);
      scripted.scheduler.audit();
    };
    const tokens = tokensOf(await scripted.drain());
    expect(tokens).toEqual({ [`${key}.1`]: [10, 11, 12], [`${key}.2`]: [10, 11, 12] });
    expectIdle(scripted);
  });

  test("go on in place when it is given up after that", async () => {
    const scripted = new ScriptedEngine();
    const key = scripted.add(PROMPT, { n: 2, maxTokens: 3 });
    await scripted.engine.step();
    scripted.engine.abort(key, 0);
    const tokens = tokensOf(await scripted.drain());
    expect(tokens).toEqual({ [`${key}.1`]: [11, 12] });
    // No other sequence holds the last block any more.
    expect(scripted.cache.stats().copiedBlocks).toBe(0);
    expectIdle(scripted);
  });

  test("are aborted one by one until none is left, before the first token", async () => {
    const scripted = new ScriptedEngine(inPieces);
    const key = scripted.add(PROMPT, { n: 3, maxTokens: 3 });
    await scripted.engine.step();
    for (const index of [0, 2, 1]) scripted.engine.abort(key, index);
    expect(await scripted.engine.step()).toBeNull();
    expectIdle(scripted);
  });

  test("fail together, and what they shared is not found again", async () => {
    const scripted = new ScriptedEngine();
    const key = scripted.add(PROMPT, { n: 3, maxTokens: 4 });
    const other = scripted.add([100], { maxTokens: 1 });
    await scripted.engine.step();
    scripted.duringStep = () => {
      scripted.duringStep = () => {};
      throw new Error("no");
    };
    const failed = await scripted.engine.step();
    expect(failed?.failures.map((failure) => failure.key)).toEqual([key]);
    expect(scripted.engine.stats()).toMatchObject(IDLE);
    const again = scripted.add(PROMPT, { n: 2, maxTokens: 2 });
    const tokens = tokensOf(await scripted.drain());
    expect(tokens).toEqual({ [`${again}.0`]: [10, 11], [`${again}.1`]: [10, 11] });
    expect(tokens).not.toHaveProperty(`${other}.0`);
    expectIdle(scripted);
  });

  test("that a failing step was to fork fail with the one that computed for them", async () => {
    const scripted = new ScriptedEngine();
    const key = scripted.add(PROMPT, { n: 3, maxTokens: 4 });
    scripted.duringStep = () => {
      throw new Error("no");
    };
    const failed = await scripted.engine.step();
    expect(failed?.failures).toMatchObject([{ key }]);
    expect(scripted.cache.poolStats()).toMatchObject({ held: 0, cached: 0 });
    expectIdle(scripted);
  });
});

describe("beams", () => {
  const search = { beamWidth: 3, n: 3, maxTokens: 4 };

  test("come out together, the likeliest first, once", async () => {
    const scripted = new ScriptedEngine();
    const key = scripted.add(PROMPT, search);
    const steps = await scripted.drain();
    const outputs = steps.flatMap((step) => step.outputs);
    expect(outputs.map(({ key: of, index }) => [of, index])).toEqual(
      [0, 1, 2].map((at) => [key, at]),
    );
    expect(outputs[0]).toMatchObject({ tokenIds: [10, 11, 12, 13], finishReason: "length" });
    expect(outputs.map(({ beam }) => beam?.logprob ?? 0)).toEqual(
      outputs.map(({ beam }) => beam?.logprob ?? 0).toSorted((a, b) => b - a),
    );
    expect(promptTellers(steps)).toEqual([0]);
    expectIdle(scripted);
  });

  test("are aborted together, also while their step runs; one alone cannot be aborted", async () => {
    const scripted = new ScriptedEngine();
    const key = scripted.add(PROMPT, search);
    await scripted.engine.step();
    scripted.engine.abort(key, 1);
    expect(scripted.engine.stats().running).toBe(3);
    scripted.duringStep = () => {
      scripted.engine.abort(key);
      scripted.scheduler.audit();
    };
    const step = await scripted.engine.step();
    expect(step?.outputs).toEqual([]);
    expect(await scripted.engine.step()).toBeNull();
    expectIdle(scripted);
  });

  test("fail together, beside others of the step", async () => {
    const scripted = new ScriptedEngine();
    const keys = [scripted.add(PROMPT, search), scripted.add(PROMPT, { n: 2, maxTokens: 4 })];
    await scripted.engine.step();
    scripted.duringStep = () => {
      scripted.duringStep = () => {};
      throw new Error("no");
    };
    const step = await scripted.engine.step();
    expect(step?.failures.map(({ key }) => key)).toEqual(keys);
    expect(await scripted.engine.step()).toBeNull();
    expectIdle(scripted);
  });

  test("are preempted as one, by swap and by recomputing, and resume with the same tokens", async () => {
    const roomy = new ScriptedEngine();
    roomy.add(PROMPT, { ...search, maxTokens: 16 });
    const expected = tokensOf(await roomy.drain());
    for (const preemption of ["swap", "recompute"] as const) {
      const scripted = new ScriptedEngine({
        ...{ blocks: 14, cache: { hostBlocks: 20 }, scheduler: { preemption } },
      });
      const others = [500, 600, 700].map((start) => scripted.add([start], { maxTokens: 24 }));
      const key = scripted.add(PROMPT, { ...search, maxTokens: 16 });
      const tokens = tokensOf(await scripted.drain());
      for (const other of others) expect(tokens[`${other}.0`]).toHaveLength(24);
      for (const index of [0, 1, 2]) {
        expect(tokens[`${key}.${index}`]).toEqual(expected[`1.${index}`]);
      }
      const { preemptions, swapPreemptions, ...stats } = scripted.engine.stats();
      expect(preemptions).toBeGreaterThan(0);
      // A prompt counts once, however many sequences it has and however often it is computed.
      expect(stats.promptTokens).toBe(3 + PROMPT.length);
      const needed = stats.promptTokens - stats.cachedPromptTokens;
      expect(stats.computedPromptTokens).toBeGreaterThanOrEqual(needed);
      expect(swapPreemptions).toBe(preemption === "swap" ? preemptions : 0);
      expectIdle(scripted);
    }
  });
});
