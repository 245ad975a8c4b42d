import fc from "fast-check";
import { expect, test } from "vitest";
import { chooseSurvivors, type FoundFile } from "../../../src/engine/tiers/survivors.ts";

interface Spec {
  readonly parent?: string;
  readonly scope?: string;
  readonly tokens?: number;
  readonly priority?: number;
}

function found(key: string, writtenMs: number, spec: Spec = {}): FoundFile {
  const { parent = null, scope = "", tokens = 4, priority = 35 } = spec;
  const ids = Int32Array.from({ length: tokens }, () => 1);
  return {
    file: { key, parentKey: parent, scope, extra: "", tokens: ids, priority },
    writtenMs,
  };
}

const keys = (files: readonly FoundFile[]) => files.map(({ file }) => file.key);

test("parents come before what continues them, the older first", () => {
  const files = [
    found("c", 3, { parent: "b" }),
    found("x", 9),
    found("b", 2, { parent: "a" }),
    found("a", 1),
  ];
  const { kept, orphans, surplus } = chooseSurvivors(files, 10, 4);
  expect(keys(kept)).toEqual(["a", "x", "b", "c"]);
  expect([...orphans, ...surplus]).toEqual([]);
});

test("what has lost its history is an orphan, circles and children of partial blocks too", () => {
  const files = [
    found("a", 1, { tokens: 3 }),
    found("b", 2, { parent: "a" }),
    found("c", 3, { parent: "gone" }),
    found("d", 4, { parent: "e" }),
    found("e", 5, { parent: "d" }),
    found("f", 6, { parent: "f" }),
  ];
  const { kept, orphans } = chooseSurvivors(files, 10, 4);
  expect(keys(kept)).toEqual(["a"]);
  expect(keys(orphans)).toEqual(["b", "c", "d", "e", "f"]);
});

test("a block of one scope does not continue a block of another", () => {
  const files = [found("a", 1, { scope: "one" }), found("b", 2, { parent: "a", scope: "two" })];
  expect(keys(chooseSurvivors(files, 10, 4).orphans)).toEqual(["b"]);
});

test("beyond the capacity the oldest tails go, not the old heads of young tails", () => {
  const files = [
    found("head", 1),
    found("young", 9, { parent: "head" }),
    found("old", 2, { parent: "head" }),
    found("alone", 5),
  ];
  expect(keys(chooseSurvivors(files, 3, 4).surplus)).toEqual(["old"]);
  expect(keys(chooseSurvivors(files, 2, 4).kept)).toEqual(["head", "young"]);
  expect(keys(chooseSurvivors(files, 1, 4).kept)).toEqual(["head"]);
});

test("beyond the capacity what is worth less goes first, however young", () => {
  const files = [found("low", 9, { priority: 1 }), found("high", 1, { priority: 90 })];
  expect(keys(chooseSurvivors(files, 1, 4).kept)).toEqual(["high"]);
});

test("whatever is found: nothing is kept without its parent, and the books of three lists agree", () => {
  const spec = fc.record({ parent: fc.nat(20), writtenMs: fc.nat(50), priority: fc.nat(100) });
  fc.assert(
    fc.property(fc.array(spec, { maxLength: 20 }), fc.nat(20), (specs, capacity) => {
      const files = specs.map(({ parent, writtenMs, priority }, index) =>
        found(String(index), writtenMs, {
          priority,
          ...(parent < 15 ? { parent: `${parent}` } : {}),
        }),
      );
      const { kept, orphans, surplus } = chooseSurvivors(files, capacity, 4);
      expect(kept.length + orphans.length + surplus.length).toBe(files.length);
      expect(kept.length).toBe(Math.min(capacity, files.length - orphans.length));
      const before = new Set<string>();
      for (const { file } of kept) {
        if (file.parentKey !== null) expect(before).toContain(file.parentKey);
        before.add(file.key);
      }
    }),
  );
});
