// Attention: ropeKvWrite, rotateHeads, pagedAttention, encoderAttention. The contract of
// test/contracts has more
// of it (bench/gpu/contracts.mjs); here are the shapes of real models, on poisoned memory.
import { formatTolerance, RandomNumbers } from "../pair.mjs";

const nobodysBlock = 2 ** 26;
const layers = 2;
const layer = 1;

/** How far attention may be from its definition in f64, by KV format. */
const rounding = {
  f32: { absolute: 5e-6, relative: 1e-5 },
  f16: { absolute: 5e-6, relative: 1e-5 },
  bf16: { absolute: 1e-2, relative: 2 ** -7 },
  i8: { absolute: 5e-4, relative: 1e-4 },
  fp8: { absolute: 5e-6, relative: 1e-5 },
};

const shapes = [
  { heads: 9, kvHeads: 3, headDim: 64, blockTokens: 16 },
  { heads: 32, kvHeads: 32, headDim: 80, blockTokens: 16 },
  { heads: 32, kvHeads: 32, headDim: 96, blockTokens: 32 },
  { heads: 32, kvHeads: 8, headDim: 128, blockTokens: 16 },
  { heads: 8, kvHeads: 4, headDim: 256, blockTokens: 64 },
  { heads: 16, kvHeads: 1, headDim: 128, blockTokens: 16 },
  { heads: 3, kvHeads: 1, headDim: 20, blockTokens: 1 },
];

/** [context, new rows] of each sequence: one decode, several, chunks of prompts, all together. */
const batches = {
  "one decode at 2100": [[2100, 1]],
  decodes: [
    [700, 1],
    [1, 1],
    [257, 1],
    [256, 1],
  ],
  "a prompt": [[150, 150]],
  mixed: [
    [37, 37],
    [600, 1],
    [290, 40],
    [20, 0],
    [17, 3],
  ],
};

/**
 * Sequences with keys and values written by ropeKvWrite, in shuffled blocks. They are NaN where
 * `isHidden(sequence, position)`.
 */
export function settingOf(pair, shape, format, spans, random, isHidden = () => false) {
  const { heads, kvHeads, headDim, blockTokens } = shape;
  const counts = spans.map(([context]) => Math.ceil(context / blockTokens));
  const blocks = counts.reduce((sum, count) => sum + count, 1);
  const ids = Array.from({ length: blocks }, (_, id) => id);
  for (let i = ids.length - 1; i > 0; i--) {
    const j = random.below(i + 1);
    [ids[i], ids[j]] = [ids[j], ids[i]];
  }
  const tables = counts.map((count) => ids.splice(0, count));
  const options = { format, layers, blocks, blockTokens, kvHeads, headDim };
  const cache = pair.make((device) => device.allocateKvPool(options));
  const slots = spans.flatMap(([context], sequence) =>
    Array.from({ length: context }, (_, place) => {
      const block = tables[sequence][Math.floor(place / blockTokens)];
      return block * blockTokens + (place % blockTokens);
    }),
  );
  const width = (heads + 2 * kvHeads) * headDim;
  // The queries in front of keys and values are not looked at: they stay 0.
  const floats = new Float32Array(slots.length * width);
  const queryColumns = heads * headDim;
  for (let end = width; end <= floats.length; end += width) {
    floats.set(random.floats(width - queryColumns), end - width + queryColumns);
  }
  const tokens = spans.flatMap(([context], sequence) =>
    Array.from({ length: context }, (_, position) => isHidden(sequence, position)),
  );
  for (const [row, hidden] of tokens.entries()) {
    if (hidden) floats.fill(Number.NaN, row * width, (row + 1) * width);
  }
  const qkv = pair.f32([slots.length, width], floats);
  const query = pair.f32([slots.length, queryColumns]);
  const places = pair.i32(slots);
  pair.run((device, pick) => {
    device.ropeKvWrite({
      ...{ count: slots.length, qkv: pick(qkv), query: pick(query), heads },
      ...{ cache: pick(cache), layer, positions: pick(places), slots: pick(places) },
    });
  });
  const columns = Math.max(...counts) + 1;
  const table = tables.flatMap((blocksOf) =>
    Array.from({ length: columns }, (_, i) => blocksOf[i] ?? nobodysBlock),
  );
  return { cache, blockTables: pair.i32(table, [spans.length, columns]) };
}

async function pagedCase(pair, shape, format, spans, more = {}) {
  const { out: outFormat = "f32", sinks, ...input } = more;
  const random = new RandomNumbers(shape.headDim + spans.length);
  const { cache, blockTables } = settingOf(pair, shape, format, spans, random);
  const starts = [0];
  for (const [, rows] of spans) starts.push(starts.at(-1) + rows);
  const count = starts.at(-1);
  const columns = shape.heads * shape.headDim;
  const query = pair.f32([count, columns], random.floats(count * columns));
  const sinkQuery = pair.f32([count, columns], random.floats(count * columns));
  const out = pair.activation(outFormat, count, columns);
  const queryStarts = pair.i32(starts);
  const contextLengths = pair.i32(spans.map(([context]) => context));
  pair.run((device, pick) => {
    device.pagedAttention({
      ...{ count, out: pick(out), query: pick(query), heads: shape.heads, cache: pick(cache) },
      ...{ layer, scale: 1 / Math.sqrt(shape.headDim), ...input },
      ...(sinks === undefined ? {} : { sinks: { tokens: sinks, query: pick(sinkQuery) } }),
      batch: {
        sequences: spans.length,
        queryStarts: pick(queryStarts),
        contextLengths: pick(contextLengths),
        blockTables: pick(blockTables),
        queryLengthMax: Math.max(...spans.map(([, rows]) => rows)),
        contextLengthMax: Math.max(...spans.map(([context]) => context)),
      },
    });
  });
  return [await pair.compare(out, formatTolerance(outFormat, rounding[format], 4))];
}

async function ropeCase(pair, { heads, kvHeads, headDim }, rotary, normed) {
  const rows = 33;
  const random = new RandomNumbers(headDim);
  const width = (heads + 2 * kvHeads) * headDim;
  const options = { format: "bf16", layers, blocks: 4, blockTokens: 16, kvHeads, headDim };
  const cache = pair.make((device) => device.allocateKvPool(options));
  const qkv = pair.f32([rows, width], random.floats(rows * width));
  const [query, sinkQuery] = [0, 1].map(() => pair.f32([rows, heads * headDim]));
  const positions = pair.i32(Array.from({ length: rows }, () => random.below(50)));
  const slots = pair.i32(Array.from({ length: rows }, (_, row) => (row % 5 === 3 ? -1 : row)));
  const rope = pair.f32([50, rotary], random.floats(50 * rotary, 0.5));
  const [queryNorm, keyNorm] = [0, 1].map(() => pair.f32([headDim], random.floats(headDim)));
  pair.run((device, pick) => {
    const norms = { queryNorm: pick(queryNorm), keyNorm: pick(keyNorm), normEpsilon: 1e-6 };
    device.ropeKvWrite({
      ...{ count: rows, qkv: pick(qkv), query: pick(query), heads, cache: pick(cache), layer },
      ...{ positions: pick(positions), slots: pick(slots), rope: pick(rope) },
      ...(normed ? norms : {}),
      sinkQuery: { out: pick(sinkQuery), positionMax: 20 },
    });
  });
  const tolerance = { absolute: 4e-6, relative: 4e-6 };
  return [await pair.compare(query, tolerance), await pair.compare(sinkQuery, tolerance)];
}

/** Heads that turn whole, of a prompt of `rows` tokens; its attention then shows the keys. */
async function turnedCase(pair, shape, rows, { format = "bf16", normed = false } = {}) {
  const { heads, kvHeads, headDim, blockTokens } = shape;
  const random = new RandomNumbers(headDim + rows);
  const columns = heads * headDim;
  const width = columns + 2 * kvHeads * headDim;
  const blocks = Math.ceil(rows / blockTokens);
  const options = { format, layers, blocks, blockTokens, kvHeads, headDim };
  const cache = pair.make((device) => device.allocateKvPool(options));
  const qkv = pair.f32([rows, width], random.floats(rows * width));
  const query = pair.f32([rows, columns]);
  const places = pair.i32(Array.from({ length: rows }, (_, row) => row));
  const rope = pair.f32([rows, headDim], random.floats(rows * headDim, 0.5));
  const norm = pair.f32([headDim], random.floats(headDim));
  const table = pair.i32(
    Array.from({ length: blocks }, (_, block) => block),
    [1, blocks],
  );
  const [starts, context] = [pair.i32([0, rows]), pair.i32([rows])];
  const out = pair.activation("f32", rows, columns);
  pair.run((device, pick) => {
    const step = { count: rows, query: pick(query), heads, cache: pick(cache), layer };
    const norms = { queryNorm: pick(norm), keyNorm: pick(norm), normEpsilon: 1e-6 };
    device.ropeKvWrite({
      ...{ ...step, qkv: pick(qkv), positions: pick(places), slots: pick(places) },
      ...{ rope: pick(rope), ...(normed ? norms : {}) },
    });
    device.pagedAttention({
      ...{ ...step, out: pick(out), scale: 1 / headDim },
      batch: {
        ...{ sequences: 1, queryLengthMax: rows, contextLengthMax: rows },
        ...{ queryStarts: pick(starts), contextLengths: pick(context), blockTables: pick(table) },
      },
    });
  });
  // A key next to a rounding boundary of its format may fall to the other side.
  const step = { f32: 1e-5, f16: 2 ** -10, bf16: 2 ** -6, i8: 2 ** -5, fp8: 2 ** -2 }[format];
  return [
    await pair.compare(query, { absolute: 4e-6, relative: 4e-6 }),
    await pair.compare(out, { absolute: step, relative: 1e-5 }),
  ];
}

async function encoderCase(pair, heads, headDim, format, reach) {
  const starts = [0, 1, 40, 40, 57, 330];
  const rows = starts.at(-1);
  const columns = heads * headDim;
  const qkv = pair.f32([rows, 3 * columns], new RandomNumbers(9).floats(rows * 3 * columns));
  const out = pair.activation(format, rows, columns);
  const ends = pair.i32(starts);
  pair.run((device, pick) => {
    device.encoderAttention({
      ...{ count: rows, out: pick(out), qkv: pick(qkv), heads, headDim, starts: pick(ends) },
      ...{ sequences: starts.length - 1, scale: 1 / Math.sqrt(headDim), reach },
    });
  });
  return [await pair.compare(out, formatTolerance(format, rounding.f32, 4))];
}

async function rotateCase(pair, heads, headDim, rotary) {
  const [rows, columns] = [300, heads * headDim + 8];
  const random = new RandomNumbers(rotary);
  const x = pair.f32([rows, columns], random.floats(rows * columns));
  const rope = pair.f32([50, rotary], random.floats(50 * rotary));
  const positions = pair.i32(Array.from({ length: rows }, () => random.below(50)));
  pair.run((device, pick) => {
    const angles = { rope: pick(rope), positions: pick(positions) };
    device.rotateHeads({ count: rows, heads, headDim, ...angles, x: pick(x) });
  });
  return [await pair.compare(x, { absolute: 2e-6, relative: 2e-6 })];
}

/** Each case: the op, what is special about it, and what runs it. */
export function* cases() {
  const paged = (name, ...rest) => ({
    ...{ op: "pagedAttention", name, run: (pair) => pagedCase(pair, ...rest) },
  });
  for (const shape of shapes) {
    const heads = `${shape.heads}/${shape.kvHeads} heads of ${shape.headDim}`;
    for (const [name, spans] of Object.entries(batches)) {
      for (const format of ["f32", "bf16"]) {
        yield paged(`${heads}, ${format}, ${name}`, shape, format, spans);
      }
    }
    for (const rotary of new Set([shape.headDim, shape.headDim / 4 - ((shape.headDim / 4) % 2)])) {
      const name = `${heads}, ${rotary} turn`;
      const run = (pair) => ropeCase(pair, shape, rotary, rotary === shape.headDim);
      yield { op: "ropeKvWrite", name, run };
    }
  }
  const large = shapes[3];
  const turned = (name, ...rest) => ({
    ...{ op: "ropeKvWrite", name, run: (pair) => turnedCase(pair, ...rest) },
  });
  // Of so many tokens, heads share threads on every GPU that there is.
  for (const rows of [1, 40, 300]) yield turned(`whole heads, ${rows} tokens`, large, rows);
  for (const shape of [shapes[1], shapes[2], shapes[4]]) {
    const name = `whole heads of ${shape.headDim}, norms`;
    yield turned(name, shape, 70, { normed: true, format: "f32" });
  }
  for (const format of ["f16", "i8", "fp8"]) {
    yield turned(`whole heads, ${format}`, large, 300, { format, normed: true });
  }
  for (const format of ["f16", "i8", "fp8"]) {
    yield paged(format, large, format, batches.mixed);
  }
  for (const out of ["bf16", "i8"]) {
    yield paged(`rounded to ${out}`, large, "bf16", batches.mixed, { out });
    yield paged(`one decode, rounded to ${out}`, large, "bf16", [[900, 1]], { out });
  }
  yield paged("a window of 300", large, "f32", batches.mixed, { window: 300 });
  yield paged("a window, cut", large, "f32", [[2100, 1]], { window: 700 });
  yield paged("sinks", large, "f32", batches.mixed, { window: 100, sinks: 4 });
  yield paged("sinks, cut", large, "f32", [[2100, 1]], { window: 300, sinks: 4 });
  yield paged("softcap", large, "f32", batches.mixed, { softcap: 1.5 });
  for (const format of ["f32", "bf16", "i8"]) {
    const run = (pair) => encoderCase(pair, 3, format === "f32" ? 21 : 64, format);
    yield { op: "encoderAttention", name: format, run };
  }
  for (const reach of [1, 64, 300]) {
    const run = (pair) => encoderCase(pair, 3, 64, "f32", reach);
    yield { op: "encoderAttention", name: `reach ${reach}`, run };
  }
  for (const [heads, headDim, rotary] of [
    [24, 64, 64],
    [3, 20, 12],
  ]) {
    const run = (pair) => rotateCase(pair, heads, headDim, rotary);
    yield { op: "rotateHeads", name: `${heads} heads of ${headDim}, ${rotary} turn`, run };
  }
}
