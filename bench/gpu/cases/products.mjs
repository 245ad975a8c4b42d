// Products of rows with matrices: linear, linearActivate, mixtureOfExperts.
import { formatTolerance, RandomNumbers } from "../pair.mjs";

const formats = ["f32", "bf16", "i8"];

/**
 * [rows, outputs, columns]: each count of rows that a kernel is made for, counts beyond it, ragged
 * outputs, columns that are no multiple of a load, and sizes of real layers.
 */
const shapes = [
  ...[1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 24, 31, 32, 40, 64, 65].map((rows) => [rows, 33, 130]),
  [1, 1, 1],
  [2, 15, 7],
  [5, 31, 127],
  [40, 64, 257],
  [300, 37, 70],
  [1, 4096, 1000],
  [2, 257, 14336],
  [129, 256, 576],
  // Cuts of a matrix among all multiprocessors: tiles in many parts, in two, and whole ones.
  [1, 128, 64],
  [16, 129, 14336],
  [8, 2048, 4096],
  [32, 1500, 1032],
  [3, 128256, 64],
  [4, 33000, 130],
  // Rows of x that stay in a block through several passes.
  [1, 8192, 1024],
  [8, 4112, 2304],
  [16, 8992, 768],
];

/**
 * Of i8 beyond 16 rows, on tensor cores: ragged tiles and chunks, fewer groups than turns, more
 * steps than stages, two bands of tiles of either height, and wide matrices.
 */
const manyShapes = [
  [17, 1, 1],
  [33, 1, 1],
  [48, 65, 100],
  [49, 130, 400],
  [97, 70, 1030],
  [100, 257, 4100],
  [770, 130, 300],
  [600, 700, 300],
  [24, 9000, 130],
  [40, 9000, 130],
  [40, 33000, 130],
  [50, 33000, 130],
];

/** [rows, F, columns] of linearActivate: few rows and many, ragged tiles and columns. */
const activatedShapes = [
  [1, 64, 64],
  [1, 5000, 520],
  [3, 5, 130],
  [8, 130, 300],
  [16, 129, 72],
  [17, 1000, 320],
  [32, 70, 1024],
  [33, 40, 66],
  [65, 1000, 200],
  [300, 72, 136],
  [34, 1024, 64],
  [64, 40, 72],
  [200, 1048, 64],
  [4, 3000, 1024],
  [16, 2200, 1536],
];

/** Rows of an activation, rounded by the devices themselves. */
function activationOf(pair, format, rows, columns, random) {
  const x = pair.f32([rows, columns], random.floats(rows * columns));
  const out = pair.activation(format, rows, columns);
  pair.run((device, pick) => {
    device.convert({ count: rows, out: pick(out), x: pick(x) });
  });
  return out;
}

/** Sums of `columns` products of numbers about 1: their order differs, and nothing else. */
function rounding(columns) {
  return { absolute: 4e-6 * Math.sqrt(columns), relative: 2e-6 };
}

async function linearCase(pair, format, [rows, outputs, columns], extras) {
  const random = new RandomNumbers(rows * 31 + columns);
  const weight = pair.matrix(format, outputs, columns, random);
  const x = activationOf(pair, format, rows, columns, random);
  const bias = pair.f32([outputs], random.floats(outputs));
  const out = pair.f32([rows + 1, outputs], random.floats((rows + 1) * outputs));
  pair.run((device, pick) => {
    const input = { count: rows, out: pick(out), x: pick(x), weight: pick(weight) };
    device.linear(extras ? { ...input, bias: pick(bias), accumulate: true } : input);
  });
  // The row behind the last one must be as it was.
  return [await pair.compare(out, rounding(columns))];
}

/**
 * Products of about 1, so that activations are neither all zero nor all linear. bf16 rounds gate
 * and up before their activation where there are many rows: 2^-9 of each, about 4 at most.
 */
async function activatedCase(pair, { format, kind, gated }, [rows, size, columns]) {
  const random = new RandomNumbers(rows * 7 + size);
  const width = gated ? 2 * size : size;
  const weight = pair.matrix(format, width, columns, random);
  const plain = pair.f32([rows, columns], random.floats(rows * columns, 1 / Math.sqrt(columns)));
  const x = pair.activation(format, rows, columns);
  const bias = pair.f32([width], random.floats(width));
  const scratch = pair.f32([rows, width]);
  const out = pair.activation(format, rows, size);
  pair.run((device, pick) => {
    device.convert({ count: rows, out: pick(x), x: pick(plain) });
    device.linearActivate({
      ...{ count: rows, kind, gated, out: pick(out), x: pick(x), weight: pick(weight) },
      scratch: pick(scratch),
      ...(rows % 2 === 1 && { bias: pick(bias) }),
    });
  });
  const exact = { absolute: 2e-5, relative: 1e-5 };
  const own = format === "bf16" ? { absolute: 0.05, relative: 0.02 } : exact;
  return [await pair.compare(out, formatTolerance(format, own, 16))];
}

function* activatedCases(format) {
  const kinds = ["silu", "gelu", "gelu-tanh", "relu", "tanh"];
  for (const [i, shape] of activatedShapes.entries()) {
    for (const gated of [true, false]) {
      const how = { format, kind: kinds[i % kinds.length], gated };
      const name = `${format} [${shape.join(", ")}] ${how.kind}${gated ? ", gated" : ""}`;
      yield { op: "linearActivate", name, run: (pair) => activatedCase(pair, how, shape) };
    }
  }
}

/** Any one of some rows equals the row computed alone, bit for bit. */
async function linearAlone(pair, format, [rows, outputs, columns]) {
  const random = new RandomNumbers(5);
  const weight = pair.matrix(format, outputs, columns, random).tested;
  const x = activationOf(pair, format, rows, columns, random).tested;
  const [together, alone] = [rows, 1].map((count) => pair.f32([count, outputs]).tested);
  const device = pair.tested;
  device.linear({ count: rows, out: together, x, weight });
  const all = await device.readF32(together);
  const verdicts = [];
  for (const row of new Set([0, rows >> 1, rows - 1])) {
    device.linear({ count: 1, out: alone, x: device.activationRows(x, row, row + 1), weight });
    const one = await device.readF32(alone);
    const differ = one.findIndex((value, n) => value !== all[row * outputs + n]);
    const detail = `row ${row} alone differs at ${differ}`;
    verdicts.push({ error: 0, excess: differ < 0 ? 0 : 1, detail });
  }
  return verdicts;
}

const mixtures = [
  { count: 1, experts: 4, expertsPerToken: 2, normalize: true, kind: "silu" },
  { count: 5, experts: 4, expertsPerToken: 1, normalize: false, kind: "gelu" },
  { count: 23, experts: 9, expertsPerToken: 3, normalize: true, kind: "gelu-tanh" },
  { count: 40, experts: 128, expertsPerToken: 8, normalize: false, kind: "silu" },
  { count: 300, experts: 3, expertsPerToken: 2, normalize: true, kind: "silu" },
  { count: 65, experts: 1, expertsPerToken: 1, normalize: true, kind: "silu", columns: 1000 },
];

async function mixtureCase(pair, format, mixture, accumulate) {
  const { count, experts, columns = 72 } = mixture;
  const hidden = 50;
  const random = new RandomNumbers(count + experts);
  const each = (rows, inputs) =>
    Array.from({ length: experts }, () => pair.matrix(format, rows, inputs, random));
  const gateUp = each(2 * hidden, columns);
  const down = each(columns, hidden);
  const x = activationOf(pair, format, count, columns, random);
  // Rounded, so that some logits are equal: the lower expert wins.
  const logits = random.floats(count * experts).map((value) => Math.round(value * 8) / 2);
  const routerLogits = pair.f32([count, experts], logits);
  const out = pair.f32([count, columns], random.floats(count * columns));
  pair.run((device, pick) => {
    device.mixtureOfExperts({
      ...mixture,
      accumulate,
      out: pick(out),
      x: pick(x),
      routerLogits: pick(routerLogits),
      gateUp: gateUp.map(pick),
      down: down.map(pick),
    });
  });
  // The activation between the two products may fall to the other side of a rounding boundary.
  const relative = { f32: 1e-5, bf16: 5e-3, i8: 2e-2 }[format];
  // Hidden values grow with the root of the columns, their gated products with the columns.
  const absolute = (relative * 100 * Math.max(columns, 72)) / 72;
  return [await pair.compare(out, { absolute, relative })];
}

/** Each case: the op, what is special about it, and what runs it. */
export function* cases() {
  for (const format of formats) {
    for (const shape of format === "i8" ? [...shapes, ...manyShapes] : shapes) {
      const extras = shape[0] % 2 === 1;
      const name = `${format} [${shape.join(", ")}]${extras ? ", bias, accumulated" : ""}`;
      yield { op: "linear", name, run: (pair) => linearCase(pair, format, shape, extras) };
    }
    yield* activatedCases(format);
    for (const mixture of mixtures) {
      const accumulate = mixture.count % 2 === 1;
      const name = `${format}, ${mixture.count} tokens, ${mixture.experts} experts`;
      const run = (pair) => mixtureCase(pair, format, mixture, accumulate);
      yield { op: "mixtureOfExperts", name, run };
    }
  }
  // Beyond 16 rows of bf16 cuBLASLt chooses the order of a sum.
  for (const [format, shape] of [
    ["f32", [43, 70, 300]],
    ["i8", [17, 70, 300]],
    ["i8", [40, 9000, 300]],
    ["i8", [1000, 257, 4100]],
    ["bf16", [16, 70, 300]],
    // Alone it stays in a block, among the others it does not.
    ["bf16", [16, 4112, 4096]],
    ["bf16", [7, 70, 300]],
  ]) {
    const wide = shape[2] === 300 ? "" : ` of [${shape.slice(1).join(", ")}]`;
    const name = `${format}, a row alone and among ${shape[0]}${wide}`;
    yield { op: "linear", name, run: (pair) => linearAlone(pair, format, shape) };
  }
}
