/** Steps that begin before earlier ones have passed all stages. */
import { expect, test } from "vitest";
import type { StepPlan } from "#scheduler";
import { ScriptedEngine, tokensOf } from "../scripted-engine.ts";

const CHUNK = 8;
const promptOf = (length: number) => Array.from({ length }, (_, place) => 1 + place);

/** An engine with stages, and the tokens of each step that began. */
function stagedEngine(stepsAheadMax: number) {
  const scripted = new ScriptedEngine({
    ...{ stepsAheadMax, runningSequencesMax: 4 },
    scheduler: { stepTokensMax: CHUNK },
  });
  const begun: number[] = [];
  const begin = scripted.scheduler.begin.bind(scripted.scheduler);
  scripted.scheduler.begin = (plan: StepPlan, nowMs: number) => {
    begun.push(plan.tokens);
    begin(plan, nowMs);
  };
  return { scripted, begun };
}

test("[PP11] chunks of one prompt begin while earlier ones are computed, as many as there are stages", async () => {
  for (const ahead of [0, 1, 3]) {
    const { scripted, begun } = stagedEngine(ahead);
    scripted.add(promptOf(6 * CHUNK), { maxTokens: 1 });
    await scripted.engine.step();
    // The first one, those ahead of its end, and with stages one in the place of the first.
    expect(begun).toHaveLength(1 + ahead);
    const tokens = tokensOf(await scripted.drain());
    expect(tokens["1.0"]).toEqual([6 * CHUNK + 1]);
    expect(begun).toEqual(Array.from({ length: 6 }, () => CHUNK));
  }
});

test("[PP11] a sequence is not planned before what it samples is known, others are", async () => {
  const { scripted, begun } = stagedEngine(3);
  scripted.add(promptOf(CHUNK), { maxTokens: 3 });
  scripted.add(promptOf(CHUNK), { maxTokens: 3 }, { cacheSalt: "other" });
  const first = await scripted.engine.step();
  // One chunk of each; neither has a token yet.
  expect(begun).toEqual([CHUNK, CHUNK]);
  const tokens = tokensOf([...(first === null ? [] : [first]), ...(await scripted.drain())]);
  expect(tokens["1.0"]).toEqual([9, 10, 11]);
  expect(tokens["2.0"]).toEqual([9, 10, 11]);
});

test("[PP11] steps behind one that fails end with it, and their blocks are free again", async () => {
  const { scripted, begun } = stagedEngine(2);
  scripted.add(promptOf(5 * CHUNK), { maxTokens: 1 });
  let steps = 0;
  scripted.duringStep = () => {
    if (++steps === 2) throw new Error("a stage failed this step");
  };
  const outputs = await scripted.drain();
  expect(outputs.flatMap(({ failures }) => failures)).toMatchObject([
    { key: 1, error: { code: "ENGINE_STEP_FAILED" } },
  ]);
  expect(begun.length).toBeLessThan(5);
  expect(scripted.engine.stats()).toMatchObject({ heldBlocks: 0, running: 0, waiting: 0 });
  scripted.duringStep = () => {};
  scripted.add(promptOf(3), { maxTokens: 2 });
  expect(tokensOf(await scripted.drain())["2.0"]).toEqual([4, 5]);
});
