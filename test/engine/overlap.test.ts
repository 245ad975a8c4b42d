/** Two steps at a time: what is planned ahead, what that costs, and what is dropped. */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type GenerateOptions, LLM } from "#engine";
import type { StepPlan } from "#scheduler";
import { Drafting } from "../../src/engine/loop/drafting.ts";
import { eachNth, sized } from "../support/full.ts";
import { tokenBytesOf } from "../support/token-bytes.ts";
import { ScriptedEngine, tokensOf } from "./scripted-engine.ts";

const seeds = sized([1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7, 8]);
const IDLE = { heldBlocks: 0, running: 0, waiting: 0 };

/** An engine that steps ahead, and how many steps were under way when each one ended. */
function aheadEngine(options: ConstructorParameters<typeof ScriptedEngine>[0] = {}) {
  const scripted = new ScriptedEngine({ overlapSteps: true, ...options });
  const underWay: number[] = [];
  const begin = scripted.scheduler.begin.bind(scripted.scheduler);
  let begun = 0;
  scripted.scheduler.begin = (plan: StepPlan, nowMs: number) => {
    begun++;
    begin(plan, nowMs);
  };
  let ended = 0;
  const countStep = () => {
    underWay.push(begun - ended++);
  };
  scripted.duringStep = countStep;
  return { scripted, underWay, countStep, begun: () => begun };
}

describe("[SP32] a step that waited for the last one's tokens", () => {
  const draftShape = { kind: "lookup", length: 3, width: 1 } as const;
  const prompt = [10, 11, 12, 13, 14, 10, 11];
  const looksBack = { repetitionPenalty: 1.5, maxTokens: 4 };

  test("begins before that one's results are passed on", async () => {
    const { scripted, begun, underWay } = aheadEngine();
    scripted.add([1, 2, 3], looksBack);
    await scripted.engine.step();
    expect([begun(), underWay]).toEqual([2, [1]]);
    await scripted.drain();
    expect(begun()).toBe(4);
    expect(scripted.engine.stats()).toMatchObject({ ...IDLE, generatedTokens: 4 });
  });

  test("not where the device computes nothing by itself", async () => {
    const { scripted, begun } = aheadEngine({ overlapSteps: false });
    scripted.add([1, 2, 3], looksBack);
    await scripted.engine.step();
    expect(begun()).toBe(1);
  });

  test("its drafts are decided once", async () => {
    const allot = vi.spyOn(Drafting.prototype, "allot");
    const { scripted, begun } = aheadEngine();
    scripted.add(prompt, { maxTokens: 8 }, { draftShape });
    const tokens = tokensOf(await scripted.drain());
    expect(tokens["1.0"]).toEqual([12, 13, 14, 15, 16, 17, 18, 19]);
    // Once more finds that nothing is left to begin.
    expect([begun(), begun() + 1, begun() + 2]).toContain(allot.mock.calls.length);
    allot.mockRestore();
  });

  test("ends alone where its request is aborted meanwhile", async () => {
    const { scripted, begun } = aheadEngine();
    const key = scripted.add(prompt, { maxTokens: 8 }, { draftShape });
    const other = scripted.add([50], looksBack);
    await scripted.engine.step();
    expect(begun()).toBe(2);
    scripted.engine.abort(key);
    expect(tokensOf(await scripted.drain())[`${other}.0`]).toEqual([52, 53, 54]);
    expect(scripted.engine.stats()).toMatchObject(IDLE);
  });

  test("is waited for where the engine is closed", async () => {
    const { scripted } = aheadEngine();
    scripted.add([1, 2, 3], looksBack);
    await scripted.engine.step();
    await scripted.engine.dispose();
    expect(scripted.engine.stats()).toMatchObject(IDLE);
  });

  test("a request that comes meanwhile joins the step behind it", async () => {
    const { scripted } = aheadEngine();
    const first = scripted.add([1, 2, 3], looksBack);
    await scripted.engine.step();
    const second = scripted.add([50], { maxTokens: 2 });
    const found = tokensOf(await scripted.drain());
    expect(found).toEqual({ [`${first}.0`]: [5, 6, 7], [`${second}.0`]: [51, 52] });
  });
});

describe("steps", () => {
  test("start before the one before them ends, and one is the most", async () => {
    const { scripted, underWay } = aheadEngine();
    const key = scripted.add([1, 2, 3], { maxTokens: 5 });
    const steps = await scripted.drain();
    expect(tokensOf(steps)).toEqual({ [`${key}.0`]: [4, 5, 6, 7, 8] });
    // The length is known ahead: nothing is computed behind the fifth token.
    expect(underWay).toEqual([2, 2, 2, 2, 1]);
    expect(scripted.engine.stats()).toMatchObject({ ...IDLE, steps: 5, generatedTokens: 5 });
  });

  test("are one token too many where a token ends the sequence, which is dropped", async () => {
    const { scripted } = aheadEngine();
    const ends = scripted.add([997], { maxTokens: 9 });
    const stops = scripted.add([10], { maxTokens: 9, stopTokenIds: [12] });
    const steps = await scripted.drain();
    expect(tokensOf(steps)).toEqual({ [`${ends}.0`]: [998, 999], [`${stops}.0`]: [11, 12] });
    expect(steps).toHaveLength(3);
    expect(steps.at(-1)?.outputs).toEqual([]);
    expect(scripted.engine.stats()).toMatchObject({ ...IDLE, generatedTokens: 4 });
  });

  test.each([{ repetitionPenalty: 1.5 }, { presencePenalty: 0.5 }, { beamWidth: 2, n: 2 }])(
    "wait for a sequence that looks back: %o",
    async (sampling) => {
      const { scripted, underWay } = aheadEngine();
      scripted.add([1, 2, 3], { ...sampling, maxTokens: 4 });
      scripted.add([50], { maxTokens: 4 });
      await scripted.drain();
      expect(Math.max(...underWay)).toBe(1);
      expect(scripted.engine.stats()).toMatchObject(IDLE);
    },
  );

  test("overlap again when it has left, and while its prompt is computed", async () => {
    const { scripted, underWay } = aheadEngine({ scheduler: { longPrefillTokensMax: 4 } });
    scripted.add([1, 2, 3, 4, 5, 6, 7, 8, 9], { repetitionPenalty: 2, maxTokens: 2 });
    scripted.add([50], { maxTokens: 8 });
    await scripted.drain();
    expect(underWay).toEqual([2, 2, 1, 1, 2, 2, 2, 1]);
  });

  test("that sample under grammars wait for each other", async () => {
    const { scripted, underWay } = aheadEngine();
    scripted.engine.useVocabulary(tokenBytesOf(["a", "b", "c", "d"]));
    scripted.add([0], { structuredOutput: { regex: "b" }, maxTokens: 4 });
    // Grammars are compiled between steps, the first one when its compiler is loaded.
    const untilFirstStep = async () => {
      await scripted.engine.step();
      expect(underWay).not.toEqual([]);
    };
    await vi.waitFor(untilFirstStep, { timeout: 30_000, interval: 1 });
    await scripted.drain();
    expect(Math.max(...underWay)).toBe(1);
    await scripted.engine.dispose();
  });

  test("forks sample ahead, too", async () => {
    const { scripted } = aheadEngine();
    const key = scripted.add([1, 2, 3, 4, 5], { n: 3, maxTokens: 4 });
    const tokens = tokensOf(await scripted.drain());
    for (const index of [0, 1, 2]) expect(tokens[`${key}.${index}`]).toEqual([6, 7, 8, 9]);
    expect(scripted.engine.stats()).toMatchObject({ ...IDLE, forks: 2, promptTokens: 5 });
  });
});

describe("what goes wrong", () => {
  test("a step that throws fails the one behind it, and no other request", async () => {
    const { scripted, countStep } = aheadEngine({ runningSequencesMax: 2 });
    const doomed = [scripted.add([1], { maxTokens: 5 }), scripted.add([20], { maxTokens: 5 })];
    const waiting = scripted.add([40], { maxTokens: 2 });
    await scripted.engine.step();
    scripted.duringStep = () => {
      scripted.duringStep = countStep;
      throw new Error("the device fell over");
    };
    const step = await scripted.engine.step();
    expect(step?.failures.map(({ key }) => key)).toEqual(doomed);
    scripted.scheduler.audit();
    expect(tokensOf(await scripted.drain())).toEqual({ [`${waiting}.0`]: [41, 42] });
    expect(scripted.engine.stats()).toMatchObject(IDLE);
  });

  test("a request of the step behind a failed one fails with it, and is told", async () => {
    const { scripted } = aheadEngine();
    const first = scripted.add([1], { maxTokens: 5 });
    await scripted.engine.step();
    const second = scripted.add([20], { maxTokens: 5 });
    scripted.duringStep = () => {
      scripted.duringStep = () => {};
      throw new Error("no");
    };
    const step = await scripted.engine.step();
    expect(step?.failures.map(({ key }) => key)).toEqual([first, second]);
    expect(await scripted.engine.step()).toBeNull();
    expect(scripted.engine.stats()).toMatchObject(IDLE);
  });

  test("a step that cannot start leaves the one before it alone", async () => {
    const { scripted } = aheadEngine();
    const key = scripted.add([1], { maxTokens: 5 });
    await scripted.engine.step();
    const start = scripted.start.bind(scripted);
    scripted.start = () => {
      scripted.start = start;
      throw new Error("no room");
    };
    expect(tokensOf([(await scripted.engine.step()) ?? expect.fail()])).toEqual({
      [`${key}.0`]: [3],
    });
    const failed = await scripted.engine.step();
    expect(failed?.failures.map((failure) => failure.key)).toEqual([key]);
    expect(await scripted.engine.step()).toBeNull();
    expect(scripted.engine.stats()).toMatchObject(IDLE);
  });

  test("a request given up between two steps frees its blocks at once", async () => {
    const { scripted } = aheadEngine();
    const gone = scripted.add([1, 2, 3], { maxTokens: 9 });
    const stays = scripted.add([50], { maxTokens: 3 });
    await scripted.engine.step();
    scripted.engine.abort(gone);
    expect(scripted.scheduler.stats().heldBlocks).toBe(1);
    expect(tokensOf(await scripted.drain())).toEqual({ [`${stays}.0`]: [52, 53] });
    expect(scripted.engine.stats()).toMatchObject(IDLE);
  });

  test("an engine can be disposed of with a step under way", async () => {
    const { scripted } = aheadEngine();
    scripted.add([1, 2, 3], { maxTokens: 9 });
    await scripted.engine.step();
    let ended = false;
    scripted.duringStep = () => {
      ended = true;
    };
    await scripted.engine.dispose();
    expect(ended).toBe(true);
    expect(scripted.engine.stats()).toMatchObject(IDLE);
  });
});

test.for(seeds)("random comings and goings bring the same tokens (seed %i)", async (seed) => {
  // Every other one swaps whom it preempts.
  const swaps = seed % 2 === 0;
  const { scripted } = aheadEngine({
    ...{ blocks: swaps ? 14 : 24, runningSequencesMax: 6 },
    ...(swaps && { cache: { hostBlocks: 16 }, scheduler: { preemption: "swap" } }),
  });
  let state = seed;
  const random = (below: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 8) % below;
  };
  const lastTokens = new Map<number, number>();
  const wild = [{}, { presencePenalty: 1 }, { beamWidth: 2 }, { stopTokenIds: [105, 108] }];
  const actOnce = () => {
    const length = 1 + random(20);
    const prompt = Array.from({ length }, (_, place) => random(3) * 100 + place);
    const sampling = { ...wild[random(8)], maxTokens: 12 };
    if (random(3) > 0) lastTokens.set(scripted.add(prompt, sampling), prompt.at(-1) ?? 0);
    else scripted.engine.abort([...lastTokens.keys()][random(lastTokens.size + 1)] ?? 0);
  };
  scripted.duringStep = async () => {
    await null;
    if (random(4) === 0) actOnce();
    if (random(10) === 0) throw new Error("a step that fails");
  };
  const start = scripted.start.bind(scripted);
  scripted.start = async (work) => {
    // Without items there are moves alone, which must not fail.
    if (work.items.length === 0) return await start(work);
    await null;
    if (random(4) === 0) actOnce();
    if (random(20) === 0) throw new Error("a step that does not start");
    return await start(work);
  };
  const steps = [];
  for (let round = 0; round < 150; round++) {
    actOnce();
    steps.push(await scripted.engine.step());
    scripted.scheduler.audit();
  }
  scripted.duringStep = () => {};
  scripted.start = start;
  steps.push(...(await scripted.drain(2000)));
  expect(scripted.engine.stats()).toMatchObject(IDLE);
  const outputs = steps.flatMap((step) => step?.outputs ?? []).filter(({ beam }) => beam === null);
  for (const { key, tokenIds } of outputs) {
    const next = (lastTokens.get(key) ?? 0) + 1;
    expect(tokenIds).toEqual([next]);
    lastTokens.set(key, next);
  }
});

describe("the bundled model", () => {
  const prompts = eachNth(2, ["A hash table stores", "The sea", "Once", "def main():"]);
  const asks: GenerateOptions[] = [
    { temperature: 0, maxTokens: 20 },
    { temperature: 1, seed: 3, maxTokens: 20, n: 3, logprobs: 3 },
    { temperature: 0.8, topK: 20, topP: 0.9, seed: 5, minTokens: 8, stop: ["e"], maxTokens: 30 },
    { temperature: 0.7, seed: 6, repetitionPenalty: 1.3, maxTokens: 16 },
    { temperature: 0, logitBias: { 300: 2 }, badWords: ["the"], maxTokens: 16, logprobs: -1 },
    { temperature: 1, seed: 9, structuredOutput: { choice: ["yes", "no"] }, maxTokens: 8 },
    { temperature: 0, maxTokens: 6, promptLogprobs: 2 },
    { beamWidth: 3, n: 2, maxTokens: 8 },
    { temperature: 1, seed: 11, minP: 0.05, logprobTokenIds: [5, 6], maxTokens: 12 },
  ];
  const load = (overlapSteps: boolean) =>
    LLM.load("models/pocket", {
      ...{ device: "cpu", dtype: "float32", engineThread: false, overlapSteps },
      scheduler: { runningSequencesMax: 12, stepTokensMax: 24 },
    });
  let plain: LLM;
  let ahead: LLM;

  beforeAll(async () => {
    [plain, ahead] = await Promise.all([load(false), load(true)]);
  });

  afterAll(async () => {
    await plain?.[Symbol.asyncDispose]();
    await ahead?.[Symbol.asyncDispose]();
  });

  const answers = (llm: LLM, options: GenerateOptions) => llm.generate(prompts, options);
  const told = (results: Awaited<ReturnType<typeof answers>>) =>
    results.map(({ completions, promptLogprobs }) => ({
      promptLogprobs,
      completions: completions.map(({ text, tokenIds, logprobs, finishReason, stopReason }) => {
        return { text, tokenIds, logprobs, finishReason, stopReason };
      }),
    }));

  test.each(eachNth(3, asks))("answers alike: %o", async (options) => {
    const expected = told(await answers(plain, options));
    expect(told(await answers(ahead, options))).toEqual(expected);
  });

  test("answers alike when all is asked at once", async () => {
    const all = (llm: LLM) => Promise.all(asks.map(async (ask) => told(await answers(llm, ask))));
    expect(await all(ahead)).toEqual(await all(plain));
    await expect.poll(() => ahead.stats()).toMatchObject(IDLE);
  });
});
