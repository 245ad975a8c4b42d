import { test } from "vitest";
import type { DevicePair } from "./pair.ts";
import { RandomNumbers } from "./random.ts";

/** takeTokens and spreadRows: what a step does with its own input. */
export function stepOps(pair: () => DevicePair): void {
  test.for([1, 5, 300])("takeTokens: some of %i ids, rows of the source twice", async (count) => {
    const random = new RandomNumbers(count);
    const whole = (end: number) => Array.from({ length: count }, () => random.below(end));
    const ids = pair().i32([...whole(1000), 77]);
    const drawn = pair().i32([5, 6, 7, 8]);
    const sources = pair().i32(whole(6).map((each) => each - 2));
    pair().run((device, pick) => {
      device.takeTokens({ count, ids: pick(ids), drawn: pick(drawn), sources: pick(sources) });
    });
    await pair().expectEqual(ids);
  });

  test.for([
    { lengths: [1], columns: 1 },
    { lengths: [0, 3, 0, 7, 1, 0], columns: 7 },
    { lengths: [600, 0, 2, 599], columns: 601 },
  ])("spreadRows: rows of $lengths over $columns", async ({ lengths, columns }) => {
    const starts = [0];
    for (const length of lengths) starts.push((starts.at(-1) ?? 0) + length);
    const count = lengths.length;
    const total = starts.at(-1) ?? 0;
    const random = new RandomNumbers(columns);
    const values = pair().i32(Array.from({ length: total }, () => random.below(1000)));
    const before = Array.from({ length: (count + 1) * columns }, (_, i) => -i);
    const out = pair().i32(before, [count + 1, columns]);
    const given = pair().i32(starts);
    pair().run((device, pick) => {
      device.spreadRows({ count, out: pick(out), starts: pick(given), values: pick(values) });
    });
    await pair().expectEqual(out);
  });
}
