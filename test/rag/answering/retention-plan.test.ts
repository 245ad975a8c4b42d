import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { promptRetention, retentionWarning } from "#kvcache";
import { retentionPlan } from "../../../src/rag/answering/retention-plan.ts";

describe("retentionPlan", () => {
  it("[RG84] keeps the preamble longest, then hot passages, and the question shortest", () => {
    const { ranges, decodePriority } = retentionPlan({
      starts: [200, 456, 712, 968],
      heat: [5, 2, 1],
    });
    const parts = ranges.map(({ start, end, priority }) => [start, end, priority]);
    expect(parts).toEqual([
      [0, 200, 95],
      [200, 712, 70],
      [712, 968, 40],
      [968, null, 5],
    ]);
    expect(decodePriority).toBe(5);
    expect(ranges.every(({ priority, durationMs }) => priority < 35 || durationMs !== null)).toBe(
      true,
    );
  });

  it("[RG84] never rises along a prompt, and is valid", () => {
    const part = fc.record({ tokens: fc.integer({ min: 1, max: 400 }), heat: fc.nat(4) });
    fc.assert(
      fc.property(fc.nat(300), fc.array(part, { maxLength: 8 }), (preamble, parts) => {
        const starts = [preamble];
        for (const { tokens } of parts) starts.push((starts.at(-1) ?? 0) + tokens);
        const plan = retentionPlan({ starts, heat: parts.map(({ heat }) => heat) });
        expect(retentionWarning(plan)).toBeNull();
        const blocks = promptRetention(plan, (starts.at(-1) ?? 0) + 30, 16);
        const priorities = blocks.map((block) => block?.priority ?? -1);
        expect(priorities).toEqual([...priorities].sort((a, b) => b - a));
        expect(priorities).not.toContain(-1);
      }),
    );
  });
});
