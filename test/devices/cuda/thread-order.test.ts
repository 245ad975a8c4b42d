/**
 * Kernels on the emulated GPU with their threads in other orders (emulator/fibers.h): the same bits,
 * unless a thread reads what another one writes without a barrier between them.
 */
import { afterEach, expect, test } from "vitest";
import type { NormKind, WeightFormat } from "#devices";
import type { DType, Shape } from "#tensor";
import {
  CudaActivation,
  CudaMatrix,
  CudaTensor,
  rowBytes,
} from "../../../src/devices/cuda/memory/handles.ts";
import { linear, linearI8 } from "../../../src/devices/cuda/ops/linear.ts";
import { I8_TILES } from "../../../src/devices/cuda/ops/linear-i8.ts";
import { norm } from "../../../src/devices/cuda/ops/norm.ts";
import { sample } from "../../../src/devices/cuda/ops/sample.ts";
import { RandomNumbers } from "../../contracts/device-ops/random.ts";
import { sized } from "../../support/full.ts";
import { describeEmulated, openSession } from "./describe-emulated.ts";

/** Values of PERIGEE_EMULATED_ORDER; the usual one comes first, in which odd blocks go backwards. */
const orders = sized(["", "backwards", "1"], ["", "backwards", "1", "2", "3", "4"]);

/** [rows, columns]: several rows for each block, one whose quads are twice as many, no quads. */
const normShapes = [
  [70, 512],
  [13, 8192],
  [3, 8196],
  [6, 515],
] as const;

/** [rows, outputs, columns]: a group that is not full, rings that go round more than once. */
const i8Shapes = [
  [17, 70, 100],
  [65, 33, 640],
  [50, 64, 1544],
] as const;

/** [rows, outputs, columns] of streamed weights: x stage by stage, and rows that stay. */
const streamShapes = [
  [2, 130, 72],
  [7, 33, 1000],
  [16, 33, 3208],
  [3, 208, 256],
  [13, 320, 768],
] as const;

describeEmulated("threads in other orders, emulated", openSession, (session) => {
  afterEach(() => {
    delete process.env.PERIGEE_EMULATED_ORDER;
  });

  function memoryOf(bytes: Uint8Array): bigint {
    const address = session.memory.allocate(bytes.length, "numbers");
    session.staging.upload(address, bytes);
    return address;
  }
  function tensor(dtype: DType, shape: Shape, data: ArrayBufferView): CudaTensor {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    return new CudaTensor(dtype, shape, memoryOf(bytes));
  }
  function floats(shape: Shape, scale = 1): CudaTensor {
    const count = shape.reduce((product, length) => product * length, 1);
    const values = new RandomNumbers(count).floats(count, scale);
    return tensor("f32", shape, Float32Array.from(values));
  }

  /** Random rows: integers with scales about 1, or halves about 1. */
  function packedRows(format: "i8" | "bf16", rows: number, columns: number): bigint {
    const random = new RandomNumbers(rows * columns);
    const stride = rowBytes(format, columns);
    const bytes = new Uint8Array(rows * stride);
    for (let row = 0; row < rows; row++) {
      const values = random.floats(columns, 1);
      if (format === "bf16") {
        const bits = new Uint32Array(Float32Array.from(values).buffer);
        const halves = Uint16Array.from(bits, (each) => each >>> 16);
        bytes.set(new Uint8Array(halves.buffer), row * stride);
        continue;
      }
      const groups = Math.ceil(columns / 128);
      const scales = Float32Array.from(random.floats(groups, 1));
      const scalesAt = row * stride + Math.ceil(columns / 16) * 16;
      bytes.set(
        Int8Array.from(values, (value) => Math.round(value * 20)),
        row * stride,
      );
      bytes.set(new Uint8Array(scales.buffer), scalesAt);
    }
    return memoryOf(bytes);
  }

  /** Runs `work` in each order and compares all that it writes: `bytes` of memory from `address`. */
  function expectSameBits(address: bigint, bytes: number, work: () => void): void {
    const begin = new Uint8Array(bytes);
    session.staging.download(begin, address);
    const found = orders.map((order) => {
      process.env.PERIGEE_EMULATED_ORDER = order;
      session.staging.upload(address, begin);
      work();
      const out = new Uint8Array(bytes);
      session.staging.download(out, address);
      return Buffer.from(out);
    });
    const [usual = Buffer.alloc(0), ...others] = found;
    expect(usual.equals(begin)).toBe(false);
    expect(others.map((other) => other.equals(usual))).toEqual(others.map(() => true));
  }

  const norms = (["rms", "layer"] as const).flatMap((kind) =>
    (["f32", "i8"] as const).flatMap((format) =>
      normShapes.map(([rows, columns]) => ({ kind, format, rows, columns })),
    ),
  );
  test.for(norms)("norm: $kind of [$rows, $columns] to $format", (given) => {
    const { kind, format, rows, columns } = given;
    const [x, weight] = [floats([rows, columns], 3), floats([columns])];
    const out = normOut(format, rows, columns, x);
    const bytes = rows * rowBytes(format, columns);
    expectSameBits(out.address, bytes, () => runNorm({ kind, out, x, weight, rows }));
  });

  /** Rows of f32 are normed where they are. */
  function normOut(format: WeightFormat, rows: number, columns: number, x: CudaTensor) {
    if (format === "f32") return x;
    const memory = memoryOf(new Uint8Array(rows * rowBytes(format, columns)));
    return new CudaActivation(format, rows, columns, memory);
  }

  interface Norm {
    readonly kind: NormKind;
    readonly out: CudaTensor | CudaActivation;
    readonly x: CudaTensor;
    readonly weight: CudaTensor;
    readonly rows: number;
  }
  function runNorm({ kind, out, x, weight, rows }: Norm): void {
    const bias = kind === "layer" ? { bias: weight } : {};
    norm(session.context, { count: rows, kind, out, x, weight, epsilon: 1e-5, ...bias });
  }

  const products = i8Shapes.flatMap(([rows, outputs, columns]) =>
    I8_TILES.map((tile) => ({ rows, outputs, columns, tile, height: tile.rows })),
  );
  test.for(products)(
    "many rows of i8: [$rows, $columns] times [$outputs, $columns], tiles of $height",
    ({ rows, outputs, columns, tile }) => {
      const x = new CudaActivation("i8", rows, columns, packedRows("i8", rows, columns));
      const weight = new CudaMatrix("i8", outputs, columns, packedRows("i8", outputs, columns));
      const out = floats([rows, outputs]);
      expectSameBits(out.address, rows * outputs * 4, () =>
        linearI8(session.context, { count: rows, out, x, weight }, tile),
      );
    },
  );

  test.for(streamShapes)("streamed weights: %i rows, [%i, %i]", ([rows, outputs, columns]) => {
    const x = new CudaActivation("bf16", rows, columns, packedRows("bf16", rows, columns));
    const weight = new CudaMatrix("bf16", outputs, columns, packedRows("bf16", outputs, columns));
    const out = floats([rows, outputs]);
    expectSameBits(out.address, rows * outputs * 4, () =>
      linear(session.context, { count: rows, out, x, weight }),
    );
  });

  test.for([
    [5, 700],
    [2, 4099],
  ] as const)("draws: %i rows of %i logits", ([count, tokens]) => {
    const random = new RandomNumbers(count);
    const vector = (values: readonly number[]) => tensor("f32", [count], Float32Array.from(values));
    const integers = (values: readonly number[]) => tensor("i32", [count], Int32Array.from(values));
    const first = <T>(values: readonly T[]) => values.slice(0, count);
    const seeds = Uint32Array.from({ length: 2 * count }, () => random.below(2 ** 32));
    const out = integers(new Array(count).fill(-1));
    const input = {
      ...{ count, out, logits: floats([count, tokens], 6) },
      temperature: vector(first([1, 0.7, 1.3, 0, 2])),
      topK: integers(first([40, 0, 300, 0, 0])),
      topP: vector(first([0.95, 0.9, 1, 1, 0.99])),
      minP: vector(first([0.01, 0, 0.02, 0, 0.1])),
      seeds: tensor("u32", [count, 2], seeds),
      positions: integers(first([0, 1, 2, 3, 4])),
    };
    expectSameBits(out.address, 4 * count, () => sample(session.context, input));
  });
});
