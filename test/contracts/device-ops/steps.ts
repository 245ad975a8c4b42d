import { test } from "vitest";
import type { WeightFormat } from "#devices";
import { AttentionSetting, layer } from "./attention-batch.ts";
import { type DevicePair, formatTolerance } from "./pair.ts";
import { RandomNumbers } from "./random.ts";

const shape = { heads: 6, kvHeads: 2, headDim: 64, blockTokens: 16, format: "f32" } as const;

/** What there is besides plain attention. */
const kinds = {
  plain: {},
  "a window": { window: 7 },
  sinks: { window: 7, sinks: 2 },
  "a softcap": { softcap: 30 },
} as const;

/** Sequences that fill a batch up: one row each, and no context. */
function paddingContract(pair: () => DevicePair): void {
  const cases = (["f32", "bf16", "i8"] satisfies WeightFormat[]).flatMap((format) =>
    Object.entries(kinds).map(([name, kind]) => ({ format, name, kind })),
  );
  test.for(cases)("pagedAttention: rows without a context, $name, to $format", async (given) => {
    const spans = [20, 0, 300, 0, 0].map((context) => ({ context, rows: 1 }));
    const contexts = spans.map(({ context }) => context);
    const setting = new AttentionSetting(pair(), shape, contexts, 3);
    const columns = shape.heads * shape.headDim;
    const query = pair().f32([5, columns], setting.queries(5));
    const sinkQuery = pair().f32([5, columns], setting.queries(5));
    const out = pair().activation(given.format, 5, columns);
    const batch = setting.batch(spans, [0, 1, 2, 3, 4]);
    const { sinks, ...kind } = { sinks: 0, ...given.kind };
    pair().run((device, pick) => {
      device.pagedAttention({
        ...{ count: 5, out: pick(out), query: pick(query), heads: shape.heads },
        ...{ cache: pick(setting.cache), layer, batch: pick(batch), scale: 1 / 8, ...kind },
        ...(sinks > 0 && { sinks: { tokens: sinks, query: pick(sinkQuery) } }),
      });
    });
    const own = { absolute: 1e-5, relative: 1e-4 };
    await pair().expectClose(out, formatTolerance(given.format, own, 3));
  });
}

/** takeTokens and spreadRows, what a step does with its own input; and how it is filled up. */
export function stepOps(pair: () => DevicePair): void {
  paddingContract(pair);
  test.for([1, 5, 300])("takeTokens: some of %i ids, rows of the source twice", async (count) => {
    const random = new RandomNumbers(count);
    const whole = (end: number) => Array.from({ length: count }, () => random.below(end));
    const ids = pair().i32([...whole(1000), 77]);
    const sampled = pair().i32([5, 6, 7, 8]);
    const sources = pair().i32(whole(6).map((each) => each - 2));
    pair().run((device, pick) => {
      device.takeTokens({ count, ids: pick(ids), sampled: pick(sampled), sources: pick(sources) });
    });
    await pair().expectEqual(ids);
  });

  test.for([
    { kind: "chains", drafted: [0] },
    { kind: "chains", drafted: [4, 0, 1, 7, 3] },
    { kind: "trees", drafted: [63, 0, 5, 40, 12, 33] },
    { kind: "branches", drafted: [20, 16, 3] },
    { kind: "trees", drafted: Array.from({ length: 300 }, (_, tree) => tree % 30) },
  ])("acceptTrees: $kind of $drafted nodes, some of them right", async ({ kind, drafted }) => {
    const random = new RandomNumbers(drafted.length);
    const columns = Math.max(1, ...drafted);
    const firstIds: number[] = [];
    const firstSampled: number[] = [];
    const parents: number[] = [];
    // Tokens and samples of each tree lie apart; a token of few values is often right.
    const ids = [9];
    const sampled: number[] = [];
    const parentOf = (node: number): number => {
      if (kind === "chains") return node - 1;
      // Branches of four from the root, some of which begin alike.
      if (kind === "branches") return node % 4 === 1 ? 0 : node - 1;
      return random.below(node);
    };
    for (const nodes of drafted) {
      ids.push(9);
      firstIds.push(ids.length);
      firstSampled.push(sampled.length);
      for (let node = 1; node <= columns; node++) parents.push(parentOf(node));
      for (let node = 0; node < nodes; node++) ids.push(random.below(4) === 0 ? 1 : 2);
      for (let node = 0; node <= nodes; node++) sampled.push(2);
    }
    ids.push(9);
    const count = drafted.length;
    const out = (first: number) =>
      pair().i32(Array.from({ length: count + 1 }, (_, at) => first * at));
    const [roots, nodes, depths] = [out(-1), out(10), out(7)];
    const given = {
      ...{ ids: pair().i32(ids), sampled: pair().i32(sampled), drafted: pair().i32(drafted) },
      ...{ firstIds: pair().i32(firstIds), firstSampled: pair().i32(firstSampled) },
      parents: pair().i32(parents, [count, columns]),
    };
    pair().run((device, pick) => {
      device.acceptTrees({
        ...{ count, ids: pick(given.ids), sampled: pick(given.sampled) },
        ...{ drafted: pick(given.drafted), firstIds: pick(given.firstIds) },
        ...{ firstSampled: pick(given.firstSampled), columns, parents: pick(given.parents) },
        ...{ roots: pick(roots), nodes: pick(nodes), depths: pick(depths) },
      });
    });
    for (const found of [roots, nodes, depths]) await pair().expectEqual(found);
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
