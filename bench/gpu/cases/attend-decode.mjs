// Attention of few query rows on tensor cores: pagedAttention with an output in bf16, one token or
// some drafted ones per sequence. Every head size and format, groups of 1 to 40, contexts that are
// less than a KV tile and such as are split over all multiprocessors. Each batch twice: by
// split-KV, and, taken for one of long contexts, by stream-K or by more splits than it has KV tiles
// for.
import { prefillCase } from "./attend-prefill.mjs";

const formats = ["bf16", "f16", "i8", "fp8"];

const usual = { heads: 8, kvHeads: 2, headDim: 128, blockTokens: 16 };

const shapes = [
  usual,
  { heads: 32, kvHeads: 8, headDim: 128, blockTokens: 16 },
  { heads: 9, kvHeads: 3, headDim: 64, blockTokens: 16 },
  { heads: 4, kvHeads: 4, headDim: 80, blockTokens: 32 },
  { heads: 6, kvHeads: 2, headDim: 96, blockTokens: 16 },
  { heads: 4, kvHeads: 2, headDim: 24, blockTokens: 48 },
  { heads: 8, kvHeads: 4, headDim: 256, blockTokens: 64 },
  { heads: 12, kvHeads: 1, headDim: 256, blockTokens: 16 },
  { heads: 16, kvHeads: 1, headDim: 128, blockTokens: 16 },
  { heads: 40, kvHeads: 1, headDim: 64, blockTokens: 16 },
];

/** [context, new rows] of each sequence. */
const batches = {
  "one short decode": [[5, 1]],
  "one decode at 3000": [[3000, 1]],
  decodes: [
    [70, 1],
    [1, 1],
    [257, 1],
    [16, 1],
    [33, 1],
    [600, 1],
  ],
};

/** A group of 4: all of them at most 16 rows. */
const drafts = [
  [40, 4],
  [300, 2],
  [3, 3],
  [20, 0],
  [9, 1],
];

const among = [
  [290, 130],
  [600, 1],
  [40, 4],
  [257, 1],
];

/** As many sequences as a large batch has: most of a few tokens, others of up to 150. */
const many = Array.from({ length: 200 }, (_, i) => [1 + ((i * 37) % (i % 8 === 3 ? 150 : 20)), 1]);

/** A bound on contexts that no step comes near. */
const longest = 1 << 17;

/** Each case, by both kernels or in more splits. */
export function* cases() {
  for (const contextMax of [0, longest]) {
    for (const [name, shape, format, spans, more = {}] of batchCases()) {
      yield {
        op: "attendDecode",
        name: contextMax === 0 ? name : `${name}, as if long`,
        run: (pair) => prefillCase(pair, shape, format, spans, { ...more, contextMax }),
      };
    }
  }
}

/** What is special about each, then what `prefillCase` takes. */
function* batchCases() {
  for (const shape of shapes) {
    const heads = `${shape.heads}/${shape.kvHeads} of ${shape.headDim}`;
    for (const [name, spans] of Object.entries(batches)) {
      yield [`${heads}, ${name}`, shape, "bf16", spans];
    }
    for (const format of formats.slice(1)) {
      yield [`${heads}, ${format}`, shape, format, batches.decodes];
    }
  }
  for (const format of formats) {
    yield [`${format}, drafts`, usual, format, drafts];
    yield [`${format}, decodes among chunks`, usual, format, among];
    for (const window of [1, 40, 130]) {
      // What lies before the window of a sequence's first row is nobody's.
      const isHidden = (sequence, position) => {
        const [context, rows] = drafts[sequence];
        return position < context - rows - window + 1;
      };
      yield [`${format}, window ${window}`, usual, format, drafts, { window, isHidden }];
    }
    yield [`${format}, sinks`, usual, format, drafts, { window: 40, sinks: 4 }];
    const manySinks = { window: 60, sinks: 20 };
    yield [`${format}, many sinks`, usual, format, batches.decodes, manySinks];
    // Rows of trees that begin at 20, 290 and 0, as sequences of their own.
    const treeStarts = [20, 20, 20, 290, 0, 0];
    const rows = [21, 25, 60, 300, 1, 17].map((context) => [context, 1]);
    yield [`${format}, rows of trees`, usual, format, rows, { treeStarts }];
    yield [`${format}, rows of trees, window`, usual, format, rows, { treeStarts, window: 45 }];
    yield [`${format}, softcap`, usual, format, batches.decodes, { softcap: 1.5 }];
  }
  yield ["200 sequences", usual, "bf16", many];
}
