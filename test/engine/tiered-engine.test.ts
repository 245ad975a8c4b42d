/** Levels below the device, as requests meet them. */
import { describe, expect, test } from "vitest";
import type { StepOutput } from "../../src/engine/protocol/protocol.ts";
import { ScriptedEngine, tokensOf } from "./scripted-engine.ts";

const IDLE = { heldBlocks: 0, running: 0, waiting: 0 };
/** Four full blocks and a token. */
const PROMPT = Array.from({ length: 17 }, (_, place) => 100 + place);
/** The last one once read a prefix whose start had just gone. */
const seeds = [1, 2, 3, 4, 5, 6, 7, 8, 111];

function expectIdle(scripted: ScriptedEngine): void {
  scripted.scheduler.audit();
  expect(scripted.engine.stats()).toMatchObject(IDLE);
  expect(scripted.cache.poolStats(1).held + scripted.cache.poolStats(2).held).toBe(0);
}

/** Runs to the end, with a disk that ends its jobs between steps. */
async function settle(scripted: ScriptedEngine): Promise<StepOutput[]> {
  const steps: StepOutput[] = [];
  for (let quiet = 0; quiet < 3; ) {
    scripted.disk.finish();
    const step = await scripted.engine.step();
    scripted.scheduler.audit();
    if (step !== null) steps.push(step);
    quiet = step === null && scripted.disk.underWay.length === 0 ? quiet + 1 : 0;
  }
  return steps;
}

/** An engine that computed the prompt, and others until its blocks were on disk alone. */
async function withPromptOnDisk(): Promise<ScriptedEngine> {
  const scripted = new ScriptedEngine({ blocks: 8, cache: { hostBlocks: 4, diskBlocks: 40 } });
  for (const start of [100, 200, 300, 400]) {
    scripted.add(
      PROMPT.map((token) => token - 100 + start),
      { maxTokens: 1 },
    );
    await settle(scripted);
  }
  const { blocks, onDisk } = scripted.cache.match("", Int32Array.from(PROMPT));
  expect([blocks.length, onDisk.length]).toEqual([0, 4]);
  return scripted;
}

describe("blocks on disk", () => {
  test("are waited for, and those behind need not wait", async () => {
    const scripted = await withPromptOnDisk();
    const key = scripted.add(PROMPT, { maxTokens: 2 });
    const other = scripted.add([900], { maxTokens: 2 });
    const steps = await scripted.drain();
    expect(tokensOf(steps)).toEqual({ [`${other}.0`]: [901, 902] });
    expect(scripted.engine.stats().waiting).toBe(1);
    const late = await settle(scripted);
    expect(tokensOf(late)).toEqual({ [`${key}.0`]: [117, 118] });
    expect(late.flatMap(({ outputs }) => outputs)[0]?.prompt?.cachedTokens).toBe(16);
    expectIdle(scripted);
  });

  test("are computed where they cannot be read", async () => {
    const scripted = await withPromptOnDisk();
    const key = scripted.add(PROMPT, { maxTokens: 2 });
    await scripted.engine.step();
    scripted.disk.finish(false);
    const steps = await settle(scripted);
    expect(tokensOf(steps)).toEqual({ [`${key}.0`]: [117, 118] });
    expect(steps.flatMap(({ outputs }) => outputs)[0]?.prompt?.cachedTokens).toBe(0);
    expect(scripted.cache.stats().diskFailures).toBe(4);
    expectIdle(scripted);
  });

  test("that arrive after their request was aborted stay for others, and are not held", async () => {
    const scripted = await withPromptOnDisk();
    const key = scripted.add(PROMPT, { maxTokens: 2 });
    await scripted.engine.step();
    scripted.engine.abort(key);
    expect(scripted.engine.stats()).toMatchObject(IDLE);
    expect(scripted.cache.poolStats(1).held).toBe(4);
    await settle(scripted);
    expectIdle(scripted);
    const again = scripted.add(PROMPT, { maxTokens: 1 });
    const { loads } = scripted.engine.stats();
    expect(tokensOf(await settle(scripted))).toEqual({ [`${again}.0`]: [117] });
    expect(scripted.engine.stats().loads).toBe(loads);
  });

  test("are read for the next sample when their lead is given up", async () => {
    const scripted = await withPromptOnDisk();
    const key = scripted.add(PROMPT, { maxTokens: 2, n: 3 });
    await scripted.engine.step();
    scripted.engine.abort(key, 0);
    const tokens = tokensOf(await settle(scripted));
    expect(tokens).toEqual({ [`${key}.1`]: [117, 118], [`${key}.2`]: [117, 118] });
    expectIdle(scripted);
  });
});

describe("blocks in host memory", () => {
  test("of a swapped request go when it is given up", async () => {
    const scripted = new ScriptedEngine({
      ...{ blocks: 8, cache: { hostBlocks: 16 }, scheduler: { preemption: "swap" } },
    });
    const first = scripted.add([100], { maxTokens: 28 });
    const second = scripted.add([200], { maxTokens: 28 });
    while (scripted.engine.stats().preemptions === 0) await scripted.engine.step();
    expect(scripted.cache.poolStats(1).held).toBeGreaterThan(0);
    scripted.engine.abort(second);
    expect(scripted.cache.poolStats(1).held).toBe(0);
    expect(tokensOf(await scripted.drain())[`${first}.0`]?.at(-1)).toBe(128);
    expectIdle(scripted);
  });

  test("of a swapped request come back when the one that pushed it out fails", async () => {
    const scripted = new ScriptedEngine({
      ...{ blocks: 8, cache: { hostBlocks: 16 }, scheduler: { preemption: "swap" } },
    });
    const first = scripted.add([100], { maxTokens: 28 });
    const second = scripted.add([200], { maxTokens: 28 });
    const before: StepOutput[] = [];
    while (scripted.engine.stats().preemptions === 0) {
      const step = await scripted.engine.step();
      if (step !== null) before.push(step);
    }
    scripted.duringStep = () => {
      scripted.duringStep = () => {};
      throw new Error("no");
    };
    const step = await scripted.engine.step();
    expect(step?.failures).toMatchObject([{ key: first }]);
    const tokens = tokensOf([...before, ...(await scripted.drain())]);
    expect(tokens[`${second}.0`]).toEqual(Array.from({ length: 28 }, (_, at) => 201 + at));
    expectIdle(scripted);
  });
});

describe("conversations", () => {
  test.for([
    [false, 12],
    [true, 1],
  ] as const)(
    "V 5.2 (S13): a second turn computes what the first left open (parts of blocks: %s)",
    async ([partialReuse, computed]) => {
      const scripted = new ScriptedEngine({
        ...{ blocks: 64, blockTokens: 16, contextTokensMax: 1024, cache: { partialReuse } },
      });
      const prompt = Array.from({ length: 100 }, (_, place) => place);
      scripted.add(prompt, { maxTokens: 200 });
      await scripted.drain(300);
      const before = scripted.engine.stats();
      scripted.add(
        Array.from({ length: 300 }, (_, place) => place),
        { maxTokens: 1 },
      );
      const steps = await scripted.drain();
      expect(steps[0]?.report.stepTokens).toBe(computed);
      const after = scripted.engine.stats();
      expect(after.computedPromptTokens - before.computedPromptTokens).toBe(computed);
      expect(after.promptTokens - before.promptTokens).toBe(300);
      expect(after.cachedPromptTokens).toBe(300 - computed);
    },
  );
});

test.for(seeds)(
  "random comings and goings through all levels keep the books right (seed %i)",
  async (seed) => {
    const scripted = new ScriptedEngine({
      ...{ blocks: 26, runningSequencesMax: 8 },
      cache: { hostBlocks: 6 + (seed % 3) * 8, diskBlocks: seed % 2 === 0 ? 0 : 30 },
      scheduler: { preemption: seed % 4 < 2 ? "swap" : "auto", longPrefillTokensMax: 7 },
    });
    let state = seed;
    const random = (below: number) => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
      return (state >>> 8) % below;
    };
    const keys: number[] = [];
    const expected = new Map<string, number>();
    const add = () => {
      const length = 1 + random(24);
      const prompt = Array.from({ length }, (_, place) => (1 + random(2)) * 100 + place);
      const searches = random(4) === 0;
      const n = 1 + random(3);
      const options = searches ? { beamWidth: n, n } : { n };
      const key = scripted.add(prompt, { ...options, maxTokens: 1 + random(14) });
      keys.push(key);
      if (!searches)
        for (let at = 0; at < n; at++) expected.set(`${key}.${at}`, prompt.at(-1) ?? 0);
    };
    const actOnce = () => {
      if (random(3) > 0) add();
      else
        scripted.engine.abort(
          keys[random(keys.length + 1)] ?? 0,
          random(2) ? random(3) : undefined,
        );
    };
    scripted.duringStep = async () => {
      await null;
      if (random(5) === 0) actOnce();
      if (random(16) === 0) throw new Error("a step that fails");
    };
    const steps: StepOutput[] = [];
    for (let round = 0; round < 250; round++) {
      if (scripted.engine.stats().waiting < 12) actOnce();
      if (random(2) === 0) scripted.disk.finish(random(8) > 0, 1 + random(4));
      const step = await scripted.engine.step();
      scripted.scheduler.audit();
      if (step !== null) steps.push(step);
    }
    scripted.duringStep = () => {};
    steps.push(...(await settle(scripted)));
    for (const [name, tokens] of Object.entries(tokensOf(steps))) {
      const last = expected.get(name);
      if (last !== undefined) expect(tokens).toEqual(tokens.map((_, at) => last + 1 + at));
    }
    expect(scripted.engine.stats().preemptions).toBeGreaterThan(0);
    expect(scripted.disk.moved).toBeGreaterThan(0);
    expectIdle(scripted);
  },
);
