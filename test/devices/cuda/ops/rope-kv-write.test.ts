/** Heads that turn whole on the emulated GPU, with few tokens in a step and with many. */
import { expect, test } from "vitest";
import type { DeviceTensor, KvFormat } from "#devices";
import { AttentionSetting, layer } from "../../../contracts/device-ops/attention-batch.ts";
import { RandomNumbers } from "../../../contracts/device-ops/random.ts";
import { describeEmulated, openPair } from "../describe-emulated.ts";

interface Case {
  readonly tokens: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly format: KvFormat;
  readonly norm: boolean;
  readonly turns: boolean;
}

const usual = { heads: 12, kvHeads: 4, headDim: 128, format: "bf16", norm: true, turns: true };

/** From 33 tokens on, heads share a thread. Head sizes that leave lanes without dims, too. */
const cases = [1, 4, 33].flatMap((tokens): Case[] =>
  [
    usual,
    { ...usual, norm: false },
    { ...usual, turns: false },
    { ...usual, headDim: 80 },
    { ...usual, headDim: 96, format: "f16" },
    { ...usual, heads: 6, kvHeads: 2, headDim: 256, format: "f32" },
    { ...usual, heads: 40, headDim: 64, format: "i8" },
    { ...usual, headDim: 80, format: "fp8" },
    { ...usual, heads: 3, kvHeads: 1, headDim: 16 },
  ].map((each) => ({ ...each, tokens, format: each.format as KvFormat })),
);

const positions = 50;

describeEmulated("heads that turn whole, emulated", openPair, (pair) => {
  const title = "$tokens tokens, $heads + 2 * $kvHeads heads of $headDim, $format, $norm, $turns";
  test.for(cases)(`ropeKvWrite: ${title}`, async (given) => {
    const { tokens, heads, kvHeads, headDim, format, norm, turns } = given;
    const random = new RandomNumbers(headDim);
    const shape = { heads, kvHeads, headDim, blockTokens: 16, format };
    const setting = new AttentionSetting(pair, shape, [tokens], 3);
    const floats = (rows: number, columns: number) =>
      pair.f32([rows, columns], random.floats(rows * columns, 0.5));
    const [qkv, rope] = [
      floats(tokens, (heads + 2 * kvHeads) * headDim),
      floats(positions, headDim),
    ];
    const query = pair.f32([tokens, heads * headDim]);
    const weights = pair.f32([headDim], random.floats(headDim));
    const numbers = Array.from({ length: tokens }, (_, token) => token);
    const places = pair.i32(numbers.map(() => random.below(positions)));
    // Some tokens are written nowhere: the cache keeps what it had.
    const slots = pair.i32(numbers.map((t) => (t % 5 === 3 ? -1 : setting.slotOf(0, t))));
    const out = pair.activation("f32", tokens, heads * headDim);
    const batch = setting.batch([{ context: tokens, rows: tokens }], [0]);
    pair.run((device, pick) => {
      const step = { count: tokens, query: pick(query), heads, cache: pick(setting.cache), layer };
      device.ropeKvWrite({
        ...step,
        ...{ qkv: pick(qkv), positions: pick(places), slots: pick(slots), normEpsilon: 1e-6 },
        ...(turns ? { rope: pick(rope) } : {}),
        ...(norm ? { queryNorm: pick(weights), keyNorm: pick(weights) } : {}),
      });
      device.pagedAttention({ ...step, out: pick(out), batch: pick(batch), scale: 0.3 });
    });
    await pair.expectClose(query, { absolute: 2e-6, relative: 2e-6 });
    // A key next to a rounding boundary of its format may fall to the other side.
    const step = { f32: 0, f16: 2 ** -10, bf16: 2 ** -6, i8: 2 ** -5, fp8: 2 ** -2 }[format];
    await pair.expectClose(out, { absolute: 1e-5 + step, relative: 1e-5 });
  });

  test("ropeKvWrite: a token has its bits whatever is beside it", async () => {
    const { tested } = pair;
    const { heads, kvHeads, headDim } = usual;
    const tokens = 33;
    const random = new RandomNumbers(5);
    const cache = tested.allocateKvPool({
      ...{ format: "f32", layers: 1, blocks: 3, blockTokens: 16, kvHeads, headDim },
    });
    const tensor = (shape: readonly number[], values: Float32Array): DeviceTensor => {
      const made = tested.allocate("f32", shape);
      tested.write(made, values);
      return made;
    };
    const rope = tensor([positions, headDim], random.floats(positions * headDim));
    const weights = tensor([headDim], random.floats(headDim));
    const width = (heads + 2 * kvHeads) * headDim;
    const rows = random.floats(tokens * width);
    const queriesOf = (first: number, count: number): Promise<Float32Array> => {
      const numbers = Int32Array.from({ length: count }, (_, i) => first + i);
      const [places, slots] = [0, 1].map(() => tested.allocate("i32", [count])) as [
        DeviceTensor,
        DeviceTensor,
      ];
      for (const each of [places, slots]) tested.write(each, numbers);
      const query = tested.allocate("f32", [count, heads * headDim]);
      const qkv = tensor([count, width], rows.slice(first * width, (first + count) * width));
      const step = { count, qkv, query, heads, cache, layer: 0, positions: places, slots, rope };
      tested.ropeKvWrite({ ...step, queryNorm: weights, keyNorm: weights, normEpsilon: 1e-6 });
      return tested.readF32(query);
    };
    const together = await queriesOf(0, tokens);
    const columns = heads * headDim;
    for (const token of [0, 17, 32]) {
      const alone = await queriesOf(token, 1);
      expect(alone).toEqual(together.slice(token * columns, (token + 1) * columns));
    }
  });
});
