// Attention of prompts on tensor cores: pagedAttention with an output in bf16, for sequences of
// many query rows. Edges of query tiles and KV tiles, every format and mask, decodes among them.
import { RandomNumbers } from "../pair.mjs";
import { settingOf } from "./attention.mjs";

/**
 * Queries and weights are rounded to 16 bits, relatively by 2^-9, and so is the output: with values
 * of variance 1 a weighted mean of many is off by less than two roundings of the largest of them.
 */
const tolerance = { absolute: 2 ** -6, relative: 2 ** -7 };
/** Elements of 8 bits are equal on both sides; their scales spread to the weights. */
const formats = ["bf16", "f16", "i8", "fp8"];

/** Blocks of 4 tokens keep the general kernel: larger ones may go to Hopper's own. */
const usual = { heads: 8, kvHeads: 2, headDim: 128, blockTokens: 4 };

/** Head sizes of every kernel, padded ones too, and groups of 1 to 32. */
const shapes = [
  { heads: 4, kvHeads: 4, headDim: 64, blockTokens: 16 },
  { heads: 9, kvHeads: 3, headDim: 64, blockTokens: 4 },
  { heads: 4, kvHeads: 2, headDim: 40, blockTokens: 16 },
  { heads: 4, kvHeads: 4, headDim: 80, blockTokens: 16 },
  { heads: 4, kvHeads: 1, headDim: 96, blockTokens: 32 },
  { heads: 6, kvHeads: 2, headDim: 104, blockTokens: 1 },
  usual,
  { ...usual, blockTokens: 16 },
  { heads: 32, kvHeads: 1, headDim: 128, blockTokens: 8 },
  { heads: 8, kvHeads: 4, headDim: 256, blockTokens: 64 },
  { heads: 4, kvHeads: 2, headDim: 200, blockTokens: 16 },
];

/** [context, new rows] of each sequence. */
const batches = {
  "one tile": [[32, 32]],
  "edges of query tiles and KV tiles": [
    [31, 31],
    [64, 33],
    [65, 65],
    [129, 17],
  ],
  "chunks among decodes": [
    [600, 1],
    [290, 130],
    [20, 0],
    [17, 3],
    [257, 1],
    [200, 200],
  ],
};

/** A random tree per sequence: a row sees itself, some rows before it are hidden. [T, W] words. */
function treeOf(spans, random) {
  const words = Math.ceil(Math.max(...spans.map(([, rows]) => rows)) / 32);
  return spans.flatMap(([, rows]) =>
    Array.from({ length: rows }, (_, row) => {
      const bits = new Uint32Array(words);
      for (let other = 0; other <= row; other++) {
        // Some rows are nobody's but their own.
        const seen = other === row || (other % 5 !== 3 && random.uniform() < 0.5);
        if (!seen) bits[Math.floor(other / 32)] |= 1 << (other % 32);
      }
      return Array.from(bits);
    }),
  );
}

/** Of sequences that are rows of trees: each sees itself, and not all before it. [S, 2] words. */
function rowsOf(spans, treeStarts, random) {
  return spans.map(([context], row) => {
    const bits = new Uint32Array(2);
    const own = context - 1 - treeStarts[row];
    for (let other = 0; other < Math.min(own, 64); other++) {
      if (random.uniform() < 0.5) bits[Math.floor(other / 32)] |= 1 << (other % 32);
    }
    return Array.from(bits);
  });
}

/** What an op takes besides: masks, caps and sinks. */
function extrasOf(pair, columns, spans, { sinks, isTree, treeStarts, ...more }, random) {
  const count = spans.reduce((sum, [, rows]) => sum + rows, 0);
  const sinkQuery =
    sinks === undefined ? null : pair.f32([count, columns], random.floats(count * columns));
  const tree = isTree
    ? treeOf(spans, random)
    : treeStarts
      ? rowsOf(spans, treeStarts, random)
      : null;
  const treeMask = tree && pair.u32(tree.flat(), [tree.length, tree[0].length]);
  const starts = treeStarts && pair.i32(treeStarts);
  return {
    ofInput: (pick) => ({
      ...more,
      ...(sinkQuery === null ? {} : { sinks: { tokens: sinks, query: pick(sinkQuery) } }),
    }),
    ofBatch: (pick) => ({
      ...(treeMask !== null && { treeMask: pick(treeMask) }),
      ...(starts !== undefined && { treeStarts: pick(starts) }),
    }),
  };
}

/** Numbers that bf16 holds: a steep softmax, by its own scale, would not bear their rounding. */
function cut(values) {
  const bits = new Uint32Array(values.buffer);
  for (let i = 0; i < bits.length; i++) bits[i] &= 0xffff0000;
  return values;
}

/** One call beside its definition. `contextMax`: what contexts are taken for at least. */
export async function prefillCase(pair, shape, format, spans, more = {}) {
  const { isHidden, contextMax = 0, ...extra } = more;
  const random = new RandomNumbers(shape.headDim + spans.length);
  const { cache, blockTables } = settingOf(pair, shape, format, spans, random, isHidden);
  const starts = [0];
  for (const [, rows] of spans) starts.push(starts.at(-1) + rows);
  const count = starts.at(-1);
  const columns = shape.heads * shape.headDim;
  const queries = random.floats(count * columns);
  const query = pair.f32([count, columns], extra.scale === undefined ? queries : cut(queries));
  const out = pair.activation("bf16", count, columns);
  const queryStarts = pair.i32(starts);
  const contextLengths = pair.i32(spans.map(([context]) => context));
  const extras = extrasOf(pair, columns, spans, extra, random);
  pair.run((device, pick) => {
    device.pagedAttention({
      ...{ count, out: pick(out), query: pick(query), heads: shape.heads, cache: pick(cache) },
      ...{ layer: 1, scale: 1 / Math.sqrt(shape.headDim), ...extras.ofInput(pick) },
      batch: {
        sequences: spans.length,
        queryStarts: pick(queryStarts),
        contextLengths: pick(contextLengths),
        blockTables: pick(blockTables),
        queryLengthMax: Math.max(...spans.map(([, rows]) => rows)),
        contextLengthMax: Math.max(contextMax, ...spans.map(([context]) => context)),
        ...extras.ofBatch(pick),
      },
    });
  });
  return [await pair.compare(out, tolerance)];
}

/** Each case: the op, what is special about it, and what runs it. */
export function* cases() {
  const prefill = (name, ...rest) => ({
    ...{ op: "attendPrefill", name, run: (pair) => prefillCase(pair, ...rest) },
  });
  for (const shape of shapes) {
    const { heads: count, kvHeads, headDim, blockTokens } = shape;
    const heads = `${count}/${kvHeads} of ${headDim}, blocks of ${blockTokens}`;
    for (const [name, spans] of Object.entries(batches)) {
      yield prefill(`${heads}, ${name}`, shape, "bf16", spans);
    }
    for (const format of formats.slice(1)) {
      yield prefill(`${heads}, ${format}`, shape, format, [[150, 70]]);
    }
  }
  const chunks = batches["chunks among decodes"];
  for (const format of formats) {
    for (const window of [1, 40, 130]) {
      // What lies before the first row's window is nobody's.
      const isHidden = (sequence, position) => {
        const [context, rows] = chunks[sequence];
        return position < context - rows - window + 1;
      };
      yield prefill(`${format}, window ${window}`, usual, format, chunks, { window, isHidden });
    }
    yield prefill(`${format}, sinks`, usual, format, chunks, { window: 100, sinks: 4 });
    yield prefill(`${format}, many sinks`, usual, format, chunks, { window: 120, sinks: 70 });
    yield prefill(`${format}, softcap`, usual, format, chunks, { softcap: 1.5 });
    const tree = [
      [300, 70],
      [40, 40],
      [90, 9],
    ];
    yield prefill(`${format}, tree`, usual, format, tree, { isTree: true });
  }
}
