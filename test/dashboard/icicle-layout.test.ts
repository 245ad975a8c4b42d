import fc from "fast-check";
import { expect, test } from "vitest";
import { layout, type Place, runHeight } from "../../dashboard/src/cache/icicle-layout.ts";
import type { Picture, Run } from "../../dashboard/src/messages.ts";

function runOf(node: number, parent: number, contents: number, more: Partial<Run> = {}): Run {
  return {
    ...{ node, serial: 0, parent, contents, tokens: contents * 16, below: contents },
    ...{ segments: [], hiddenRuns: 0, hiddenContents: 0, group: 0, salted: false, ...more },
  };
}

const picture = (runs: readonly Run[]): Picture => ({
  ...{ runs, contents: 0, hiddenRuns: 0, hiddenContents: 0, depth: 0, complete: true },
});

test("children share their parent's width by what is below them, and hang at its end", () => {
  const stem = runOf(5, -1, 4, { below: 16, hiddenRuns: 3, hiddenContents: 3 });
  const { runs, rests, height } = layout(picture([stem, runOf(9, 0, 3), runOf(7, 0, 6)]));
  const [root, first, second] = runs;
  expect(root).toMatchObject({ x: 0, width: 1, y: 0, height: runHeight(4) });
  expect([first?.run.node, second?.run.node]).toEqual([7, 9]);
  expect(first).toMatchObject({ x: 0, width: 0.5, y: runHeight(4) });
  expect(second).toMatchObject({ x: 0.5, width: 0.25, y: runHeight(4) });
  expect(rests).toMatchObject([{ x: 0.75, width: 0.25, runs: 3, contents: 3 }]);
  expect(height).toBe(runHeight(4) + runHeight(6));
});

test("an empty tree takes no room", () => {
  expect(layout(picture([]))).toEqual({ runs: [], rests: [], height: 0 });
});

test("no two bars lie on each other, in whatever tree", () => {
  const trees = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 1, max: 40 })), { maxLength: 40 });
  fc.assert(
    fc.property(trees, (shape) => {
      const parents = shape.map(([parent], at) => (at === 0 ? -1 : (parent % (at + 1)) - 1));
      const below = shape.map(([, contents]) => contents);
      for (let at = below.length - 1; at > 0; at--) {
        const parent = parents[at] ?? -1;
        if (parent >= 0) below[parent] = (below[parent] ?? 0) + (below[at] ?? 0);
      }
      const runs = shape.map(([, contents], at) =>
        runOf(100 - at, parents[at] ?? -1, contents, { below: below[at] ?? 0 }),
      );
      const placed = layout(picture(runs)).runs;
      expect(placed).toHaveLength(runs.length);
      for (const one of placed) {
        for (const other of placed) if (one !== other) expect(overlap(one, other)).toBe(false);
      }
    }),
    { numRuns: 40 },
  );
});

function overlap(one: Place, other: Place): boolean {
  const tiny = 1e-9;
  const inX = one.x + one.width > other.x + tiny && other.x + other.width > one.x + tiny;
  return inX && one.y + one.height > other.y && other.y + other.height > one.y;
}
