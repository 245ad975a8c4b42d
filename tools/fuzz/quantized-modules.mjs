/** Modules in the layouts of AWQ, GPTQ and compressed-tensors, with random quanta. */
import { Dice } from "./dice.mjs";

const GROUP = 16;
const SMALL_F16 = 0x1c00;

const GPTQ = { quant_method: "gptq", bits: 4, group_size: GROUP, desc_act: true };
const WEIGHTS = { num_bits: 4, type: "int", symmetric: false, strategy: "group" };

function compressed(format, weights) {
  const group = { targets: ["Linear"], weights };
  return { quant_method: "compressed-tensors", format, config_groups: { group_0: group } };
}

/** By seed: `quantization_config`, and the parts of a module of [rows, columns]. */
export const QUANTIZED = {
  awq: {
    config: { quant_method: "awq", bits: 4, group_size: GROUP, zero_point: true, version: "gemm" },
    parts: (rows, columns) => ({
      qweight: words(columns, rows / 8),
      qzeros: words(columns / GROUP, rows / 8),
      scales: scales(columns / GROUP, rows),
    }),
  },
  gptq: {
    config: GPTQ,
    parts: (rows, columns) => ({
      qweight: words(columns / 8, rows),
      qzeros: words(columns / GROUP, rows / 8),
      scales: scales(columns / GROUP, rows),
      g_idx: groups(columns),
    }),
  },
  "compressed-packed": {
    config: compressed("pack-quantized", { ...WEIGHTS, group_size: GROUP }),
    parts: (rows, columns) => ({
      weight_packed: words(rows, columns / 8),
      weight_scale: scales(rows, columns / GROUP),
      weight_zero_point: words(rows / 8, columns / GROUP),
      weight_shape: longs(rows, columns),
    }),
  },
  "compressed-bytes": {
    config: compressed("int-quantized", { ...WEIGHTS, num_bits: 8, strategy: "channel" }),
    parts: (rows, columns) => ({
      weight: bytes(rows, columns),
      weight_scale: scales(rows, 1),
      weight_zero_point: bytes(rows, 1),
    }),
  },
};

/**
 * The tensors of a module in the place of its matrix, by name.
 * @param {{ parts: (rows: number, columns: number) => object }} method
 * @param {string} matrix
 * @param {readonly number[]} shape
 */
export function quantized(method, matrix, [rows = 0, columns = 0]) {
  const module = matrix.slice(0, -".weight".length);
  const parts = Object.entries(method.parts(rows, columns));
  return Object.fromEntries(parts.map(([part, tensor]) => [`${module}.${part}`, tensor]));
}

function random(count) {
  const dice = new Dice(2, count);
  return Buffer.from(Uint8Array.from({ length: count }, () => dice.below(256)));
}

function words(...shape) {
  return { dtype: "I32", shape, bytes: random(4 * shape[0] * shape[1]) };
}

function bytes(...shape) {
  return { dtype: "I8", shape, bytes: random(shape[0] * shape[1]) };
}

function scales(...shape) {
  const halves = new Uint16Array(shape[0] * shape[1]).fill(SMALL_F16);
  return { dtype: "F16", shape, bytes: Buffer.from(halves.buffer) };
}

function groups(columns) {
  const index = Int32Array.from({ length: columns }, (_, at) => at % (columns / GROUP));
  return { dtype: "I32", shape: [columns], bytes: Buffer.from(index.buffer) };
}

function longs(...values) {
  const integers = BigInt64Array.from(values, BigInt);
  return { dtype: "I64", shape: [values.length], bytes: Buffer.from(integers.buffer) };
}
