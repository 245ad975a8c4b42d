/** Failures inside a step: which requests they end, and that no other request sees them. */
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { StepOutput } from "../../src/engine/protocol/protocol.ts";
import { broken, grammarEngine } from "./pretend-grammars.ts";
import { ScriptedEngine, tokensOf } from "./scripted-engine.ts";

const IDLE = { heldBlocks: 0, running: 0, waiting: 0 };
const structuredOutput = { regex: "a+" };

/** Steps until so many requests have failed and all others are through. */
async function stepsUntil(scripted: ScriptedEngine, failures: number): Promise<StepOutput[]> {
  const steps: StepOutput[] = [];
  const count = () => steps.reduce((sum, step) => sum + step.failures.length, 0);
  for (let round = 0; round < 1000 && count() < failures; round++) {
    await turn(); // grammars are compiled between steps
    const step = await scripted.engine.step();
    if (step !== null) steps.push(step);
    scripted.scheduler.audit();
  }
  return [...steps, ...(await scripted.drain())];
}

describe.each([false, true])("with steps ahead: %s", (overlapSteps) => {
  test.each(["fillBitmask", "accept", "ends", "dispose"] as const)(
    "a grammar whose %s throws ends its request, and no other",
    async (method) => {
      const matcher = method === "dispose" ? { accept: broken } : {};
      const scripted = grammarEngine({ ...matcher, [method]: broken }, { overlapSteps });
      const good = [scripted.add([50], { maxTokens: 9 }), scripted.add([70], { maxTokens: 60 })];
      const bad = [1, 2].map((n) => scripted.add([n], { structuredOutput, n, maxTokens: 4 }));
      const steps = await stepsUntil(scripted, bad.length);
      const failures = steps.flatMap((step) => step.failures);
      expect(failures.map(({ key }) => key).sort()).toEqual(bad);
      for (const { error } of failures) {
        expect(error.code).toBe("ENGINE_STEP_FAILED");
        expect(error.message).toContain("memory access out of bounds");
      }
      const [short, long] = good.map((key) => tokensOf(steps)[`${key}.0`]?.length);
      expect([short, long]).toEqual([9, 60]);
      expect(scripted.engine.stats()).toMatchObject(IDLE);
      await scripted.engine.dispose();
    },
  );

  test("a failure of one item of a step ends its request, whatever it sampled", async () => {
    const scripted = new ScriptedEngine({ overlapSteps });
    const keys = [10, 20, 30].map((token) => scripted.add([token], { maxTokens: 5 }));
    const start = scripted.start.bind(scripted);
    scripted.start = async (work) => {
      const { items } = work;
      const started = await start(work);
      const failure = { code: "GRAMMAR_INVALID", message: "Cannot continue", param: null } as const;
      const fails = ({ requestId }: { requestId: string }, place: number) =>
        requestId === "request" && items[place]?.sequence.promptLength === 1 && place === 1;
      return {
        ...started,
        finish: async () =>
          (await started.finish()).map((result, place) => {
            const { sequence } = items[place] ?? expect.fail();
            const isLater = sequence.tokens.length > 2 && sequence.tokens.get(0) === 20;
            return isLater && fails(sequence, place) ? { ...result, failure } : result;
          }),
      };
    };
    const steps = await scripted.drain();
    const failures = steps.flatMap((step) => step.failures);
    expect(failures).toMatchObject([{ key: keys[1], error: { code: "GRAMMAR_INVALID" } }]);
    const tokens = tokensOf(steps);
    expect(tokens[`${keys[0]}.0`]).toEqual([11, 12, 13, 14, 15]);
    expect(tokens[`${keys[2]}.0`]).toEqual([31, 32, 33, 34, 35]);
    expect(scripted.engine.stats()).toMatchObject(IDLE);
  });

  test("a commit that throws ends the requests of its step, and the next step runs", async () => {
    const scripted = new ScriptedEngine({ overlapSteps, runningSequencesMax: 2 });
    const doomed = [1, 20].map((token) => scripted.add([token, 1, 2, 3], { maxTokens: 5 }));
    const waiting = scripted.add([40], { maxTokens: 2 });
    await scripted.engine.step();
    const commit = scripted.scheduler.commit.bind(scripted.scheduler);
    scripted.scheduler.commit = () => {
      scripted.scheduler.commit = commit;
      throw new Error("a mistake");
    };
    const step = await scripted.engine.step();
    expect(step?.failures.map(({ key }) => key)).toEqual(doomed);
    expect(step?.failures[0]?.error).toMatchObject({ code: "ENGINE_STEP_FAILED" });
    scripted.scheduler.audit();
    expect(tokensOf(await scripted.drain())).toEqual({ [`${waiting}.0`]: [41, 42] });
    expect(scripted.engine.stats()).toMatchObject(IDLE);
  });

  test.each([0, 1, 2, 3, 4, 5])(
    "a begin that throws as block %i is filled or made known ends its step, and the next one runs",
    async (calls) => {
      const scripted = new ScriptedEngine({
        ...{ overlapSteps, runningSequencesMax: 4 },
        cache: { hostBlocks: 8, events: "sha256_cbor" },
      });
      const prompt = [1, 2, 3, 4, 5, 6, 7, 8, 9];
      scripted.add(prompt, { maxTokens: 1 });
      await scripted.drain();
      // Hits, forks and new blocks in one step.
      const keys = [scripted.add(prompt, { maxTokens: 6 })];
      keys.push(scripted.add([...prompt.slice(0, 6), 90], { n: 2, maxTokens: 6 }));
      let left = calls;
      const { cache } = scripted;
      const restore = ["allocate", "extend", "publish"].map((name) => {
        const key = name as "allocate";
        const original = cache[key];
        cache[key] = (...args) => {
          if (left-- === 0) throw new Error("a mistake");
          return original.apply(cache, args);
        };
        return () => {
          cache[key] = original;
        };
      });
      const step = await scripted.engine.step();
      for (const undo of restore) undo();
      scripted.scheduler.audit();
      const steps = [step, ...(await scripted.drain())].filter((each) => each !== null);
      const failed = steps.flatMap((each) => each.failures.map(({ key }) => key));
      const again = keys.map((key) => scripted.add([key + 40], { maxTokens: 3 }));
      const tokens = tokensOf(await scripted.drain());
      for (const key of again) expect(tokens[`${key}.0`]).toHaveLength(3);
      expect(new Set(failed).size).toBe(failed.length);
      expect(scripted.engine.stats()).toMatchObject(IDLE);
    },
  );

  test("a plan that throws ends all requests that wait or run, and new requests are served", async () => {
    const scripted = new ScriptedEngine({ overlapSteps, runningSequencesMax: 2 });
    const doomed = [1, 20, 30].map((token) => scripted.add([token], { maxTokens: 5 }));
    await scripted.engine.step();
    const plan = scripted.scheduler.plan.bind(scripted.scheduler);
    scripted.scheduler.plan = () => {
      scripted.scheduler.plan = plan;
      throw new Error("a mistake");
    };
    const steps = await scripted.drain();
    expect(steps.flatMap((step) => step.failures.map(({ key }) => key))).toEqual(doomed);
    const key = scripted.add([50], { maxTokens: 3 });
    expect(tokensOf(await scripted.drain())).toEqual({ [`${key}.0`]: [51, 52, 53] });
    expect(scripted.engine.stats()).toMatchObject(IDLE);
  });

  test("books that are out of order after a failure end the engine", async () => {
    const scripted = new ScriptedEngine({ overlapSteps });
    scripted.add([1, 2, 3, 4, 5], { maxTokens: 5, n: 2 });
    scripted.cache.fork = () => {
      throw new Error("a mistake");
    };
    await expect(scripted.drain()).rejects.toThrow("A sequence is in no queue, or in two");
  });
});
