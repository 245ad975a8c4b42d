// Products of tens to hundreds of rows of bf16 in tiles (native/cuda/linear-tiles.h), whatever is
// fastest here: on a device without cuBLASLt.
import { cudaFromEnvironment } from "../../../dist/cli/cuda-environment.js";
import { openSystemLibrary } from "../../../dist/devices/cuda/native-library.js";
import { Pair } from "../pair.mjs";
import { openTested } from "../smoke-cases.mjs";
import { activatedCase, linearCase } from "./products.mjs";

/**
 * [rows, outputs, columns]: each size of a tile, filled and not; one output, one column; ragged
 * outputs and columns; fewer stages than blocks, and more of a tile than a ring has; tiles in one
 * part, in two, in many; two tiles of rows, and shapes of real layers.
 */
const shapes = [
  ...[17, 31, 32, 33, 64, 65, 96, 97, 128, 129, 192, 193, 256, 257, 300, 384, 385, 512].map(
    (rows) => [rows, 33, 130],
  ),
  [17, 1, 1],
  [33, 4096, 1032],
  [64, 1000, 4104],
  [96, 6144, 1024],
  [100, 129, 14336],
  [192, 2056, 520],
  [200, 300, 2000],
  [255, 4096, 1024],
  [256, 300, 4096],
  [401, 1000, 1000],
  [17, 128256, 64],
  [65, 33000, 130],
];

/** [rows, F, columns] with a gate. */
const gatedShapes = [
  [17, 8, 1],
  [24, 2048, 1032],
  [64, 72, 4096],
  [65, 1000, 200],
  [96, 4104, 520],
  [129, 1000, 2056],
  [192, 40, 72],
  [255, 3584, 1024],
  [300, 72, 136],
  [512, 1048, 64],
];

/**
 * Sums of numbers about 1. A tensor core adds 16 products at a time to the same sum, where other
 * kernels have many sums side by side: what gets lost grows with the columns, too.
 */
function rounding(columns) {
  return { absolute: 4e-6 * Math.sqrt(columns) * (1 + columns / 4096), relative: 2e-6 };
}

let opened = null;

/** The device, and nothing else that runs beside it; poisoned like the one that all cases have. */
function openOwn() {
  opened ??= openTested(cudaFromEnvironment(), {
    warn() {},
    openLibrary: (path) => (path.includes("cublasLt") ? null : openSystemLibrary(path)),
  });
  return opened;
}

async function onOwn(run) {
  const pair = new Pair(await openOwn());
  try {
    return await run(pair);
  } finally {
    pair.release();
  }
}

/** Each case: the op, what is special about it, and what runs it. */
export function* cases() {
  const op = "linearTiles";
  for (const shape of shapes) {
    const extras = shape[0] % 2 === 1;
    const name = `[${shape.join(", ")}]${extras ? ", bias, accumulated" : ""}`;
    const run = (pair) => linearCase(pair, "bf16", shape, extras, rounding(shape[2]));
    yield { op, name, run: () => onOwn(run) };
  }
  for (const [i, shape] of gatedShapes.entries()) {
    const kind = ["silu", "gelu", "gelu-tanh", "relu"][i % 4];
    const how = { format: "bf16", kind, gated: true };
    const name = `[${shape.join(", ")}] ${kind}, gated`;
    yield { op, name, run: () => onOwn((pair) => activatedCase(pair, how, shape)) };
  }
}
