// Row ops: norm, activate, convert, add, softcap, gatherRows, meanPool, embed, pack.
import { formatTolerance, RandomNumbers } from "../pair.mjs";

const formats = ["f32", "bf16", "i8"];
/** One row, many, less than a warp, more than a group of 128, odd, as in a real model. */
const shapes = [
  [1, 576],
  [3, 1],
  [5, 15],
  [2, 130],
  [37, 300],
  [7, 4096],
];
/** Norms of more rows than blocks, and of rows that registers hold twice, once and not. */
const normShapes = [...shapes, [300, 4096], [140, 8192], [3, 8196], [2, 12_288], [2, 16_388]];
/** More columns than a block has at once. */
const embedShapes = [...shapes, [3, 5004]];
/** f32 sums of some hundred products in another order than the definition's f64. */
const rounding = { absolute: 2e-6, relative: 2e-6 };

async function normCase(pair, format, kind, rows, columns) {
  const random = new RandomNumbers(columns);
  const x = pair.f32([rows + 1, columns], random.floats((rows + 1) * columns, 3));
  const delta = pair.f32([rows, columns], random.floats(rows * columns));
  const weight = pair.f32([columns], random.floats(columns));
  const bias = pair.f32([columns], random.floats(columns));
  const out = pair.activation(format, rows, columns);
  pair.run((device, pick) => {
    const input = { count: rows, kind, out: pick(out), x: pick(x), weight: pick(weight) };
    const layer = { bias: pick(bias) };
    const rms = { delta: pick(delta), weightOffset: 1 };
    device.norm({ ...input, epsilon: 1e-5, ...(kind === "layer" ? layer : rms) });
  });
  const tolerance = formatTolerance(format, { absolute: 1e-5, relative: 1e-5 }, 12);
  return [await pair.compare(out, tolerance), await pair.compare(x, rounding)];
}

async function normInPlace(pair) {
  const x = pair.f32([4, 50], new RandomNumbers(1).floats(200));
  const weight = pair.f32([50], new RandomNumbers(2).floats(50));
  pair.run((device, pick) => {
    const rows = { count: 4, out: pick(x), x: pick(x), weight: pick(weight) };
    device.norm({ ...rows, kind: "rms", epsilon: 1e-6 });
  });
  return [await pair.compare(x, { absolute: 1e-5, relative: 1e-5 })];
}

async function activateCase(pair, format, kind, gated) {
  const verdicts = [];
  for (const [rows, columns] of shapes) {
    const width = gated ? 2 * columns : columns;
    const values = new RandomNumbers(rows).floats(rows * width, 3);
    values.set([0, -0, 90, -90].slice(0, columns));
    const x = pair.f32([rows, width], values);
    const out = pair.activation(format, rows, columns);
    pair.run((device, pick) => {
      device.activate({ count: rows, kind, out: pick(out), x: pick(x), gated });
    });
    verdicts.push(await pair.compare(out, formatTolerance(format, rounding, gated ? 1000 : 90)));
  }
  return verdicts;
}

async function convertCase(pair, format) {
  const verdicts = [];
  for (const [rows, columns] of shapes) {
    const x = pair.f32([rows, columns], new RandomNumbers(rows).floats(rows * columns, 3));
    const out = pair.activation(format, rows, columns);
    pair.run((device, pick) => {
      device.convert({ count: rows, out: pick(out), x: pick(x) });
    });
    verdicts.push(await pair.compare(out, { relative: 1e-7 }));
  }
  return verdicts;
}

async function addAndSoftcap(pair, op) {
  const verdicts = [];
  for (const [rows, columns] of [...shapes, [5, 9000]]) {
    const random = new RandomNumbers(columns);
    const size = (rows + 1) * columns;
    const x = pair.f32([rows + 1, columns], random.floats(size, 20));
    const delta = pair.f32([rows + 1, columns], random.floats(size));
    pair.run((device, pick) => {
      if (op === "add") device.add({ count: rows, x: pick(x), delta: pick(delta) });
      else device.softcap({ count: rows, x: pick(x), cap: 30 });
    });
    // The row behind the last one must be as it was.
    verdicts.push(await pair.compare(x, rounding));
  }
  return verdicts;
}

async function gatherCase(pair) {
  const x = pair.f32([9, 33], new RandomNumbers(5).floats(9 * 33));
  const indices = pair.i32([8, 0, 3, 3, 7]);
  const out = pair.f32([5, 33]);
  pair.run((device, pick) => {
    device.gatherRows({ count: 5, out: pick(out), x: pick(x), indices: pick(indices) });
  });
  return [await pair.compare(out)];
}

async function meanPoolCase(pair, normalize) {
  const x = pair.f32([40, 70], new RandomNumbers(6).floats(40 * 70));
  const starts = pair.i32([0, 1, 1, 30, 40]);
  const out = pair.f32([4, 70]);
  pair.run((device, pick) => {
    const input = { out: pick(out), x: pick(x), starts: pick(starts), sequences: 4, normalize };
    device.meanPool(input);
  });
  return [await pair.compare(out, rounding)];
}

/** `format`: of the table, or "tensor" for a plain one. */
async function embedCase(pair, format, transposed) {
  const verdicts = [];
  for (const [rows, columns] of embedShapes) {
    const random = new RandomNumbers(columns + 7);
    const table =
      format === "tensor"
        ? pair.f32([50, columns], random.floats(50 * columns))
        : pair.matrix(format, 50, columns, random, transposed ? { transposed } : {});
    const ids = pair.i32(Array.from({ length: rows }, () => random.below(48)));
    const first = random.floats(rows * columns);
    for (const accumulate of [false, true]) {
      const out = pair.f32([rows, columns], accumulate ? first : undefined);
      pair.run((device, pick) => {
        const input = { count: rows, out: pick(out), ids: pick(ids), table: pick(table) };
        device.embed({ ...input, scale: 1.5, offset: 2, accumulate });
      });
      verdicts.push(await pair.compare(out, { absolute: 1e-6, relative: 1e-6 }));
    }
  }
  return verdicts;
}

async function loadCase(pair, dtype) {
  const data = new RandomNumbers(9).floats(37 * 211);
  const bits = new Uint32Array(data.buffer);
  // The upper halves of floats are bf16 numbers, and finite f16 numbers once the top bit is off.
  const halves = Uint16Array.from(bits, (each) => (each >>> 16) & (dtype === "f16" ? 0x3fff : ~0));
  const source = {
    ...{ name: "norm", dtype, shape: [37, 211], discard() {} },
    bytes: () => new Uint8Array(dtype === "f32" ? data.buffer : halves.buffer),
  };
  return [await pair.compare(pair.make((device) => device.load(source)))];
}

/** Each case: the op, what is special about it, and what runs it. */
export function* cases() {
  for (const format of formats) {
    for (const kind of ["rms", "layer"]) {
      for (const [rows, columns] of normShapes) {
        const name = `${kind} [${rows}, ${columns}] to ${format}`;
        yield { op: "norm", name, run: (pair) => normCase(pair, format, kind, rows, columns) };
      }
    }
    for (const kind of ["silu", "gelu", "gelu-tanh", "relu", "tanh"]) {
      for (const gated of [true, false]) {
        const name = `${kind} to ${format}${gated ? ", gated" : ""}`;
        yield { op: "activate", name, run: (pair) => activateCase(pair, format, kind, gated) };
      }
    }
    yield { op: "convert", name: format, run: (pair) => convertCase(pair, format) };
    for (const transposed of [false, true]) {
      const name = `${format}${transposed ? ", from a transposed file" : ""}`;
      yield { op: "embed", name, run: (pair) => embedCase(pair, format, transposed) };
    }
  }
  yield { op: "norm", name: "in place", run: normInPlace };
  yield { op: "embed", name: "a plain tensor", run: (pair) => embedCase(pair, "tensor", false) };
  for (const op of ["add", "softcap"]) {
    yield { op, name: "first rows", run: (pair) => addAndSoftcap(pair, op) };
  }
  yield { op: "gatherRows", name: "any order, rows twice", run: gatherCase };
  for (const normalize of [true, false]) {
    const name = normalize ? "normalized" : "plain";
    yield { op: "meanPool", name, run: (pair) => meanPoolCase(pair, normalize) };
  }
  for (const dtype of ["f32", "f16", "bf16"]) {
    yield { op: "load", name: dtype, run: (pair) => loadCase(pair, dtype) };
  }
}
