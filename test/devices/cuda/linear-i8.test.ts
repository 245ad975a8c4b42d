/** Kernels for many rows of i8: which one is taken, and that all of them give the same bits. */
import { describe, expect, test } from "vitest";
import type { Gpu } from "../../../src/devices/cuda/driver/gpu.ts";
import {
  CudaActivation,
  CudaMatrix,
  CudaTensor,
} from "../../../src/devices/cuda/memory/handles.ts";
import { linearI8 } from "../../../src/devices/cuda/ops/linear.ts";
import { I8_TILES, type I8Tile, i8TileFor } from "../../../src/devices/cuda/ops/linear-i8.ts";
import { RandomNumbers } from "../../contracts/device-ops/random.ts";
import { describeEmulated, openSession } from "./describe-emulated.ts";

/** Columns that need no padding, and where a row's scales begin. */
const [columns, groups] = [640, 5];
const rowBytes = columns + groups * 4 + 12;

describe("the tile of many rows of i8", () => {
  // As much of a GPU as the choice looks at.
  const hopper = { multiprocessors: 132, sharedBytesMax: 232_448 } as Gpu;
  const heightOf = (count: number, outputs: number, gpu = hopper) =>
    i8TileFor(gpu, { count, outputs })?.rows;

  /** By rows and outputs: what was fastest of products with 4096 columns on one H200. */
  test.for([
    { outputs: 6144, counts: [17, 32, 33, 48], height: 48 },
    { outputs: 6144, counts: [56, 64, 96, 128, 256, 512, 8192], height: 32 },
    { outputs: 4096, counts: [33, 80, 96], height: 48 },
    { outputs: 4096, counts: [128, 256, 8192], height: 32 },
    { outputs: 28_672, counts: [33, 48], height: 48 },
    { outputs: 28_672, counts: [17, 32, 56, 64, 80, 96, 128, 256, 8192], height: 32 },
  ])("is $height for $counts rows, $outputs outputs", ({ outputs, counts, height }) => {
    expect(counts.map((count) => heightOf(count, outputs))).toEqual(counts.map(() => height));
  });

  test("fits the shared memory that there is, or there is none", () => {
    const consumer = { multiprocessors: 84, sharedBytesMax: 101_376 } as Gpu;
    expect(heightOf(512, 28_672, consumer)).toBe(32);
    expect(heightOf(512, 28_672, { ...consumer, sharedBytesMax: 49_152 })).toBeUndefined();
  });
});

describeEmulated("many rows of i8, emulated", openSession, (session) => {
  /** Rows of random integers, with scales about 1. */
  function randomRows(rows: number): bigint {
    const random = new RandomNumbers(rows);
    const bytes = new Uint8Array(rows * rowBytes);
    for (let row = 0; row < rows; row++) {
      const integers = random.floats(columns, 1).map((value) => Math.round(value * 20));
      bytes.set(Int8Array.from(integers), row * rowBytes);
      const scales = Float32Array.from(random.floats(groups, 1));
      bytes.set(new Uint8Array(scales.buffer), row * rowBytes + columns);
    }
    const address = session.memory.allocate(bytes.length, "rows");
    session.staging.upload(address, bytes);
    return address;
  }

  test.for([
    [17, 70],
    [64, 64],
    [65, 33],
    [130, 65],
  ] as const)("%i rows, %i outputs: each tile gives the bits of few rows", ([count, outputs]) => {
    const x = new CudaActivation("i8", count, columns, randomRows(count));
    const weight = new CudaMatrix("i8", outputs, columns, randomRows(outputs));
    const address = session.memory.allocate(count * outputs * 4, "a product");
    const out = new CudaTensor("f32", [count, outputs], address);
    const bitsBy = (tile: I8Tile | null) => {
      const bits = new Uint32Array(count * outputs);
      session.staging.upload(address, bits);
      linearI8(session.context, { count, out, x, weight }, tile);
      session.staging.download(bits, address);
      return bits;
    };
    const wanted = bitsBy(null);
    for (const tile of I8_TILES) expect(bitsBy(tile)).toEqual(wanted);
  });
});
