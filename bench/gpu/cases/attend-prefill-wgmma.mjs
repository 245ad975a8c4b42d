// Attention of prompts by Hopper's own kernel: pagedAttention in shapes that it takes, from one
// tile of keys to ten. A wrong descriptor is off by whole values here. On another GPU the general
// kernel answers, which must be as right.
import { prefillCase } from "./attend-prefill.mjs";

const shape = { heads: 8, kvHeads: 2, headDim: 128, blockTokens: 16 };

/** [context, new rows] of each sequence. A tile is 32 tokens of 4 heads, and 128 positions. */
const batches = {
  "half a tile": [[17, 17]],
  "one tile of rows": [[32, 32]],
  "one tile of keys": [[128, 128]],
  "a key beyond it": [[129, 129]],
  "stages used again": [[700, 60]],
  "a prefix of whole tiles": [[1280, 33]],
  "a prefix that ends in a block": [[1000, 100]],
  "ragged, among decodes": [
    [600, 1],
    [290, 130],
    [20, 0],
    [17, 3],
    [257, 1],
    [385, 200],
    [64, 64],
  ],
  "behind many decodes": [[40, 33], ...new Array(70).fill([5, 1]), [190, 170], [34, 34]],
  "more jobs than blocks": Array.from({ length: 108 }, (_, i) =>
    i % 13 === 5 ? [140, 140] : [20, 20],
  ),
};

const shapes = [
  shape,
  { ...shape, headDim: 64 },
  { ...shape, kvHeads: 8 },
  { ...shape, heads: 6 },
  { ...shape, kvHeads: 1, blockTokens: 8 },
  { ...shape, blockTokens: 32, headDim: 64 },
  { ...shape, blockTokens: 128 },
];

/** Each case: the op, what is special about it, and what runs it. */
export function* cases() {
  const prefill = (name, ...rest) => ({
    ...{ op: "attendPrefillWgmma", name, run: (pair) => prefillCase(pair, ...rest) },
  });
  for (const each of shapes) {
    const { heads, kvHeads, headDim, blockTokens } = each;
    const title = `${heads}/${kvHeads} heads of ${headDim}, blocks of ${blockTokens}`;
    for (const [name, spans] of Object.entries(batches)) {
      yield prefill(`${title}, ${name}`, each, "bf16", spans);
    }
    yield prefill(`${title}, f16`, each, "f16", [[300, 170]]);
  }
  const ragged = batches["ragged, among decodes"];
  for (const window of [1, 16, 40, 128, 130, 300]) {
    // What lies before the first row's window is nobody's.
    const isHidden = (sequence, position) => {
      const [context, rows] = ragged[sequence];
      return position < context - rows - window + 1;
    };
    yield prefill(`window ${window}`, shape, "bf16", ragged, { window, isHidden });
  }
  // Maxima of tiles lie far apart, so that sums shrink between them.
  for (const format of ["bf16", "f16"]) {
    yield prefill(`a steep softmax, ${format}`, shape, format, ragged, { scale: 1 });
  }
  const narrow = { ...shape, headDim: 64 };
  yield prefill("a steep softmax, window", narrow, "bf16", ragged, { scale: 2, window: 130 });
  yield prefill("softcap", shape, "bf16", ragged, { softcap: 1.5 });
  yield prefill("softcap and window", shape, "bf16", ragged, { softcap: 20, window: 90 });
}
