import { expect, test } from "vitest";
import { distinct, Harness, sequences } from "./harness.ts";

function startOrder(requests: readonly (readonly [priority: number, arrivalMs: number])[]) {
  const harness = new Harness({ policy: "priority" });
  const made = requests.map(([priority, arrivalMs], index) =>
    harness.add(distinct(index + 1, 10), { priority, arrivalMs }),
  );
  return sequences(harness.step()).map((sequence) => made.indexOf(sequence));
}

test("[SC9] V 5.2 (S11): smaller priorities start first", () => {
  expect(
    startOrder([
      [2, 0],
      [0, 1],
      [1, 2],
    ]),
  ).toEqual([1, 2, 0]);
});

test("[SC9] V 5.2 (S11): equal priorities start by arrival", () => {
  expect(
    startOrder([
      [5, 4],
      [5, 1],
      [5, 3],
      [5, 2],
    ]),
  ).toEqual([1, 3, 2, 0]);
});

test("[SC9] V 5.2 (S11): with one seat the most urgent runs, and the others wait in order", () => {
  const harness = new Harness({ policy: "priority", runningSequencesMax: 1 });
  const made = [3, 1, 2, 0].map((priority, index) =>
    harness.add(distinct(index + 1, 10), { priority, stop: { maxTokens: 1 } }),
  );
  const order = harness.drain().map((plan) => made.indexOf(sequences(plan)[0] ?? fail()));
  expect(order).toEqual([3, 1, 2, 0]);
});

function fail(): never {
  throw new Error("An empty step");
}

test("[SC5] V 5.2 (S22): a request that waits for a grammar is passed over and keeps its place", () => {
  const harness = new Harness({ runningSequencesMax: 2 });
  const spec = { stop: { maxTokens: 1 } };
  const plain = harness.add(distinct(1, 10), spec);
  const first = harness.add(distinct(2, 10), { ...spec, awaitsGrammar: true });
  const second = harness.add(distinct(3, 10), { ...spec, awaitsGrammar: true });
  const last = harness.add(distinct(4, 10), spec);
  expect(sequences(harness.step())).toEqual([plain, last]);
  expect(harness.step().items).toEqual([]);
  const late = harness.add(distinct(5, 10), spec);
  harness.scheduler.grammarReady(second.id);
  harness.scheduler.grammarReady(first.id);
  expect(sequences(harness.step())).toEqual([first, second]);
  expect(sequences(harness.step())).toEqual([late]);
});
