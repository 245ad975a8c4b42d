// Weights on their way: made on the device, and read from a file by several threads.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomSource } from "../../../dist/devices/index.js";
import { RandomNumbers } from "../pair.mjs";

const random = { seed: { low: 0xfedcba98, high: 0x76543210 }, range: Math.fround(0.037) };

/** Every row of the matrix that sources become. */
async function packCase(pair, sources, options) {
  const table = pair.make((device) => device.pack(sources, options));
  const { rows, columns } = table.defined;
  const out = pair.f32([rows, columns]);
  const ids = pair.i32(Array.from({ length: rows }, (_, row) => row));
  pair.run((device, pick) =>
    device.embed({ count: rows, out: pick(out), ids: pick(ids), table: pick(table) }),
  );
  return [await pair.compare(out)];
}

/** Two stacked matrices of bf16 in a file, after a header of odd length. */
async function fileCase(pair, options) {
  const folder = mkdtempSync(join(tmpdir(), "perigee-weights-"));
  try {
    const path = join(folder, "weights");
    const [rows, columns, lead] = [1700, 1033, 77];
    const generator = new RandomNumbers(5);
    const count = 2 * rows * columns;
    // Small numbers: exponents around that of 1.
    const elements = Uint16Array.from({ length: count }, () => 0x3c00 + generator.below(0x800));
    const bytes = new Uint8Array(elements.buffer);
    writeFileSync(path, Buffer.concat([Buffer.alloc(lead), bytes]));
    const sources = [0, 1].map((part) => ({
      ...{ name: `part ${part}`, dtype: "bf16", shape: [rows, columns], discard() {} },
      file: { path, start: lead + part * rows * columns * 2 },
      bytes: () => bytes.subarray(part * rows * columns * 2, (part + 1) * rows * columns * 2),
    }));
    return await packCase(pair, sources, options);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Each case: the op, what is special about it, and what runs it. */
export function* cases() {
  for (const format of ["f32", "bf16", "i8"]) {
    const sources = [randomSource("a", [37, 333], random), randomSource("b", [2, 333], random)];
    const name = `random ${format}`;
    yield { op: "pack", name, run: (pair) => packCase(pair, sources, { format }) };
    const file = `${format} from a file`;
    yield { op: "pack", name: file, run: (pair) => fileCase(pair, { format }) };
  }
  const transposed = { format: "bf16", transposed: true };
  const tall = [randomSource("c", [129, 65], random)];
  yield { op: "pack", name: "random, transposed", run: (pair) => packCase(pair, tall, transposed) };
}
