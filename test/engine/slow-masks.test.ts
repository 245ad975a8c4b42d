/** Grammars whose masks take long: what the others' steps wait for. */
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { GrammarMatcher } from "#sampling";
import type { StepOutput } from "../../src/engine/protocol/protocol.ts";
import { grammarEngine } from "./pretend-grammars.ts";
import { type ScriptedEngine, tokensOf } from "./scripted-engine.ts";

const structuredOutput = { regex: "a+" };
/** Longer than a step waits for masks. */
const MASK_MS = 30;

/** An engine on which each mask takes long, and how many there were. */
function slowEngine(overlapSteps: boolean, replaced: Partial<GrammarMatcher> = {}) {
  const masks = { count: 0 };
  const scripted: ScriptedEngine = grammarEngine(
    {
      slow: true,
      fillBitmask: async (row) => {
        masks.count++;
        scripted.nowMs += MASK_MS;
        row.fill(0xffffffff);
      },
      ...replaced,
    },
    { overlapSteps, blocks: 24 },
  );
  return { scripted, masks };
}

/** Lets the grammars be compiled, and the first masks be made. */
async function begin(scripted: ScriptedEngine): Promise<StepOutput[]> {
  await turn();
  const step = await scripted.engine.step();
  return step === null ? [] : [step];
}

describe.each([false, true])("with steps ahead: %s", (overlapSteps) => {
  test("no step waits for more than one of them, and all go on in turn", async () => {
    const { scripted, masks } = slowEngine(overlapSteps);
    const plain = scripted.add([50], { maxTokens: 40 });
    const slow = scripted.add([10], { structuredOutput, n: 4, maxTokens: 5, temperature: 1 });
    const steps = await begin(scripted);
    for (;;) {
      const before = masks.count;
      const step = await scripted.engine.step();
      if (step === null) break;
      steps.push(step);
      scripted.scheduler.audit();
      expect(masks.count - before).toBeLessThanOrEqual(1);
    }
    const tokens = tokensOf(steps);
    expect(tokens[`${plain}.0`]).toEqual(Array.from({ length: 40 }, (_, at) => 51 + at));
    for (let index = 0; index < 4; index++) {
      expect(tokens[`${slow}.${index}`]).toEqual([11, 12, 13, 14, 15]);
    }
    // They take turns: none has two tokens more than another at any time.
    const drawn = [0, 0, 0, 0];
    for (const { key, index, tokenIds } of steps.flatMap(({ outputs }) => outputs)) {
      if (key === slow) drawn[index] = (drawn[index] ?? 0) + tokenIds.length;
      expect(Math.max(...drawn) - Math.min(...drawn)).toBeLessThanOrEqual(1);
    }
    expect(scripted.engine.stats()).toMatchObject({ heldBlocks: 0, running: 0 });
  });

  test("they go on without other sequences, short of blocks too", async () => {
    const { scripted } = slowEngine(overlapSteps);
    const keys = [10, 200].map((token) =>
      scripted.add([token], { structuredOutput, n: 3, maxTokens: 40, temperature: 1 }),
    );
    await turn();
    const tokens = tokensOf(await scripted.drain(1_000));
    for (const key of keys) {
      for (let index = 0; index < 3; index++) expect(tokens[`${key}.${index}`]).toHaveLength(40);
    }
    expect(scripted.engine.stats().preemptions).toBeGreaterThan(0);
  });

  test("one that fails between steps ends its request alone", async () => {
    let left = 6;
    const { scripted } = slowEngine(overlapSteps, {
      accept: () => {
        if (left-- === 0) throw new Error("memory access out of bounds");
        return true;
      },
    });
    const plain = scripted.add([50], { maxTokens: 20 });
    const slow = scripted.add([10], { structuredOutput, n: 2, maxTokens: 20, temperature: 1 });
    await turn();
    const steps = await scripted.drain();
    expect(steps.flatMap(({ failures }) => failures)).toMatchObject([
      { key: slow, error: { code: "ENGINE_STEP_FAILED" } },
    ]);
    expect(tokensOf(steps)[`${plain}.0`]).toHaveLength(20);
    expect(scripted.engine.stats()).toMatchObject({ heldBlocks: 0, running: 0 });
  });

  test("what is cancelled meanwhile is not waited for", async () => {
    const { scripted, masks } = slowEngine(overlapSteps);
    const plain = scripted.add([50], { maxTokens: 20 });
    const slow = scripted.add([10], { structuredOutput, n: 4, maxTokens: 20, temperature: 1 });
    const steps = [...(await begin(scripted)), ...(await begin(scripted))];
    scripted.engine.abort(slow);
    const before = masks.count;
    steps.push(...(await scripted.drain()));
    expect(masks.count).toBe(before);
    expect(tokensOf(steps)[`${plain}.0`]).toHaveLength(20);
  });
});
