/** Products of q8 rows with matrices of quantised blocks: every type of block a file can have. */
import { afterAll, describe, expect, test } from "vitest";
import type { Device, WeightMatrix, WeightSource } from "#devices";
import { ReferenceDevice } from "#devices";
import { BLOCK_TYPES, type BlockType, blockSize } from "#tensor";
import { CpuDevice } from "../../../src/devices/cpu/cpu-device.ts";
import { blockSource, randomBlocks } from "../../support/random-blocks.ts";
import { expectSameBits } from "../../support/same-bits.ts";
import { activationOf, cpuDevices, randomFloats, sourceOf, worstError } from "./linear-material.ts";

const TYPES: readonly BlockType[] = BLOCK_TYPES.map(({ name }) => name);

/** Of an output relative to sqrt(K) * 0.02: both sides multiply the same integers and scales. */
const TOLERANCE = 4e-6;

/** Single rows, one tile, tiles that share an expanded panel, ragged panels. */
const COUNTS = [1, 2, 3, 4, 5, 6, 7, 12, 16, 17, 40, 100];

const devices = cpuDevices();
const reference = new ReferenceDevice();
afterAll(() => {
  for (const { device } of devices) device.dispose();
});

function columnsOf(type: BlockType): number {
  return blockSize(type).columns === 256 ? 768 : 352;
}

function randomSource(type: BlockType, rows: number, seed: number): WeightSource {
  const columns = columnsOf(type);
  return blockSource(type, [rows, columns], randomBlocks(type, rows, columns, seed));
}

const pack = (device: Device, ...sources: WeightSource[]): WeightMatrix =>
  device.pack(sources, { format: "q8" });

interface Product {
  readonly count: number;
  readonly weight: WeightMatrix;
  readonly extras?: boolean;
}

async function multiply(device: Device, { count, weight, extras }: Product) {
  const { rows, columns } = weight;
  const x = activationOf(device, "q8", randomFloats(count * columns, 2), count);
  const out = device.allocate("f32", [count, rows]);
  device.write(out, randomFloats(count * rows, 3));
  const bias = device.load(sourceOf(randomFloats(rows, 4), [rows]));
  device.linear({ count, out, x, weight, ...(extras && { bias, accumulate: true }) });
  return device.readF32(out);
}

function scaleOf(type: BlockType): number {
  return 0.02 * Math.sqrt(columnsOf(type));
}

test.for(TYPES)("takes the weights of %s as what the blocks stand for", async (type) => {
  const columns = columnsOf(type);
  const source = randomSource(type, 3, 21);
  const weight = pack(reference, source);
  const floats = new Float32Array(source.bytes().buffer);
  // Rows of one 1 and zeros are exact in q8 but for the scale's rounding.
  const ids = reference.allocate("i32", [3]);
  reference.write(ids, Int32Array.of(0, 1, 2));
  const out = reference.allocate("f32", [3, columns]);
  reference.embed({ count: 3, out, ids, table: weight });
  expectSameBits(await reference.readF32(out), floats);
  expect(Math.hypot(...floats) / Math.sqrt(floats.length)).toBeGreaterThan(0.004);
});

describe.for(devices)("matrices of blocks on $isa", ({ isa, device }) => {
  test.for(TYPES)("equal the definition: %s", async (type) => {
    const source = randomSource(type, 70, 5);
    const weight = pack(device, source);
    const defined = pack(reference, source);
    for (const count of COUNTS) {
      const extras = count % 2 === 1;
      const actual = await multiply(device, { count, weight, extras });
      const wanted = await multiply(reference, { count, weight: defined, extras });
      expect(worstError(actual, wanted, scaleOf(type))).toBeLessThan(extras ? 1e-5 : TOLERANCE);
    }
  });

  test.for(TYPES)("give a row the same bits in any batch: %s", async (type) => {
    const weight = pack(device, randomSource(type, 70, 6));
    const rows = 40;
    const { columns, rows: outputs } = weight;
    const x = activationOf(device, "q8", randomFloats(rows * columns, 6), rows);
    const out = device.allocate("f32", [rows, outputs]);
    device.linear({ count: rows, out, x, weight });
    const together = await device.readF32(out);
    for (let count = 1; count < rows; count++) {
      const first = rows - count;
      device.linear({ count, out, x: device.activationRows(x, first, rows), weight });
      const alone = await device.readF32(device.rows(out, 0, count));
      expectSameBits(alone, together.subarray(first * outputs));
    }
  });

  test.for(TYPES)("are read row by row as embeddings: %s", async (type) => {
    const source = randomSource(type, 70, 7);
    const ids = Int32Array.of(0, 31, 32, 69, 15, 16);
    const read = async (on: Device) => {
      const tensor = on.allocate("i32", [ids.length]);
      on.write(tensor, ids);
      const out = on.allocate("f32", [ids.length, columnsOf(type)]);
      on.embed({ count: ids.length, out, ids: tensor, table: pack(on, source) });
      return on.readF32(out);
    };
    expect(worstError(await read(device), await read(reference), 0.02)).toBeLessThan(1e-5);
  });

  test("stack types, floats and ragged rows", async () => {
    const sources = [
      blockSource("Q4_K", [37, 768], randomBlocks("Q4_K", 37, 768, 8)),
      blockSource("Q4_K", [20, 768], randomBlocks("Q4_K", 20, 768, 9)),
      blockSource("Q6_K", [33, 768], randomBlocks("Q6_K", 33, 768, 10)),
      sourceOf(
        randomFloats(9 * 768, 11).map((value) => value * 0.04),
        [9, 768],
        "bf16",
      ),
      blockSource("Q4_0", [5, 768], randomBlocks("Q4_0", 5, 768, 12)),
    ];
    const weight = pack(device, ...sources);
    expect(weight.rows).toBe(104);
    for (const count of [1, 7, 33]) {
      const actual = await multiply(device, { count, weight, extras: true });
      const defined = pack(reference, ...sources);
      const wanted = await multiply(reference, { count, weight: defined, extras: true });
      expect(worstError(actual, wanted, scaleOf("Q4_K"))).toBeLessThan(1e-5);
    }
  });

  test("have the same bits on any number of threads", async () => {
    const source = randomSource("Q5_K", 200, 13);
    for (const count of [19, 75]) {
      const wanted = await multiply(device, { count, weight: pack(device, source) });
      for (const threads of [1, 3, 5]) {
        const other = CpuDevice.open({ isa, threads });
        expectSameBits(await multiply(other, { count, weight: pack(other, source) }), wanted);
        other.dispose();
      }
    }
  });

  test.for(TYPES.filter((type) => type !== "MXFP4"))(
    "refuse scales that are no numbers: %s",
    (type) => {
      const columns = columnsOf(type);
      const blocks = randomBlocks(type, 2, columns, 14);
      const at =
        blockSize(type).bytes === 84 ? 80 : ({ Q3_K: 108, Q6_K: 208 }[type as string] ?? 0);
      new DataView(blocks.buffer).setUint16(at, 0x7e00, true);
      expect(() => pack(device, blockSource(type, [2, columns], blocks))).toThrow(
        /scales must be finite, those of 1 blocks/,
      );
    },
  );

  test("refuse fewer blocks than the shape has", () => {
    const blocks = randomBlocks("Q4_0", 2, 64, 15).subarray(0, 71);
    expect(() => pack(device, blockSource("Q4_0", [2, 64], blocks))).toThrow(
      /whole blocks of Q4_0/,
    );
    const ragged = blockSource("Q4_0", [2, 40], randomBlocks("Q4_0", 2, 64, 16));
    expect(() => pack(device, ragged)).toThrow(/whole blocks of Q4_0/);
  });
});

test("AMX gives the bits of AVX-512", async () => {
  const [amx, avx512] = ["amx", "avx512"].map((isa) => devices.find((one) => one.isa === isa));
  if (amx === undefined || avx512 === undefined) return;
  for (const type of TYPES) {
    const source = randomSource(type, 70, 17);
    for (const count of COUNTS) {
      const [weight, other] = [pack(amx.device, source), pack(avx512.device, source)];
      const wanted = await multiply(avx512.device, { count, weight: other });
      expectSameBits(await multiply(amx.device, { count, weight }), wanted);
    }
  }
});
