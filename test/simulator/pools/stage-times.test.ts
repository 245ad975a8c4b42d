import { expect, test } from "vitest";
import { PAPER_COSTS } from "../../../src/simulator/pools/node-costs.ts";
import { PrefillNode } from "../../../src/simulator/pools/prefill-node.ts";
import { StageTimes, stagedPromptMs } from "../../../src/simulator/pools/stage-times.ts";
import { SimClock } from "../../../src/simulator/sim-clock.ts";

const COSTS = { ...PAPER_COSTS, promptMs: 0, promptPairMs: 0, promptTokenMs: 1 };

test("equal chunks through n stages take as many shares as chunks and further stages", () => {
  for (const stages of [1, 2, 4]) {
    const ms = stagedPromptMs(COSTS, 32 * 100, { stages, chunkTokens: 100 });
    expect(ms).toBeCloseTo((32 + stages - 1) * (100 / stages), 6);
  }
});

test("a stage computes one chunk at a time, and a late chunk waits for nothing", () => {
  const times = new StageTimes(2);
  expect(times.pass(0, 20)).toBe(20);
  expect(times.pass(10, 40)).toBe(50);
  expect(times.firstFreeMs).toBe(30);
  expect(times.pass(100, 20)).toBe(120);
});

test("a prefill node with stages computes a prompt in the time that they take", () => {
  const run = (stages: number) => {
    const clock = new SimClock();
    const node = new PrefillNode({
      ...{ clock, costs: COSTS, blockTokens: 512, chunkTokens: 2048, stages },
      onChanges: () => {},
    });
    const ends: number[] = [];
    const submit = (first: number) =>
      node.submit({
        ...{ id: `${first}`, inputTokens: 65_536, priority: 0, begun: () => {} },
        ids: Int32Array.from({ length: 128 }, (_, place) => first + place),
        done: () => ends.push(clock.nowMs()),
      });
    submit(0);
    clock.run();
    const laterMs = clock.nowMs() + 5;
    clock.after(5, () => {
      submit(1000);
      submit(2000);
    });
    clock.run();
    return { ends, laterMs };
  };
  for (const stages of [1, 2, 4]) {
    const alone = stagedPromptMs(COSTS, 65_536, { stages, chunkTokens: 2048 });
    const { ends, laterMs } = run(stages);
    const [first = 0, second = 0, third = 0] = ends;
    expect(first).toBeCloseTo(alone, 3);
    expect(second - laterMs).toBeCloseTo(alone, 3);
    // The next prompt follows without a gap: its first chunk enters behind the last one of the other.
    expect(third - second).toBeCloseTo(65_536 / stages, 3);
  }
});
