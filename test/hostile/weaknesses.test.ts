import { expect, test } from "vitest";
import { full } from "../support/full.ts";
import { runHostile } from "./hostile-run.ts";
import { plant, plantedFiles, WEAKNESSES } from "./weaknesses.ts";

test.each(WEAKNESSES)("a planted weakness can still be planted: $name", (weakness) => {
  expect(plantedFiles(weakness).size).toBeGreaterThan(0);
});

test.each(WEAKNESSES.filter(({ quick }) => quick || full))(
  "the suite finds a planted weakness: $name",
  async (weakness) => {
    const { root, remove } = plant(weakness);
    try {
      const { cases, foundBy } = weakness;
      const warm = foundBy.includes("memory");
      const pauses = foundBy.includes("pause") ? { pauseRuns: 1 } : {};
      const options = { root, cases, requests: 1000, until: foundBy, warm, ...pauses };
      const report = await runHostile(options);
      const found = report.failures.map(({ check }) => check);
      expect(found.filter((check) => foundBy.includes(check))).not.toEqual([]);
    } finally {
      remove();
    }
  },
  15 * 60_000,
);
