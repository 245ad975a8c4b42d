import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CudaDriver } from "../../../src/devices/cuda/driver/driver.ts";
import { describeGpu } from "../../../src/devices/cuda/driver/gpu.ts";
import { CudaStream } from "../../../src/devices/cuda/driver/stream.ts";
import { CudaMemory } from "../../../src/devices/cuda/memory/memory.ts";
import { Staging } from "../../../src/devices/cuda/memory/staging.ts";
import { CublasLt } from "../../../src/devices/cuda/products/cublaslt.ts";
import { bucketOf, Products } from "../../../src/devices/cuda/products/products.ts";
import { emulatedSettings } from "./emulated-device.ts";

test("buckets of rows grow by a third or a half", () => {
  const rows = [1, 2, 3, 4, 5, 6, 7, 33, 48, 49, 64, 65, 700, 1025];
  expect(rows.map(bucketOf)).toEqual([1, 2, 3, 4, 6, 6, 8, 48, 48, 64, 64, 96, 768, 1536]);
});

describe.skipIf(emulatedSettings() === null)("GEMMs on an emulated GPU", () => {
  const folder = mkdtempSync(join(tmpdir(), "perigee-products-"));
  const settings = emulatedSettings() ?? {};
  let open: () => { products: Products; memory: CudaMemory; staging: Staging; stream: CudaStream };
  beforeAll(() => {
    const driver = CudaDriver.open(settings);
    const cublas = CublasLt.open(settings, driver.version);
    open = () => {
      const stream = new CudaStream(driver);
      const memory = new CudaMemory(driver, stream);
      const staging = new Staging({ driver, memory, stream });
      const gpu = describeGpu(driver, 0);
      const products = new Products({ cublas, driver, gpu, memory, stream, folder });
      return { products, memory, staging, stream };
    };
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  test("adds once, though several algorithms are timed, and is ready for fewer rows", () => {
    const { products, memory, staging } = open();
    const [rows, outputs, inputs] = [130, 2, 8];
    const [x, weight, out] = [rows * inputs, outputs * inputs, rows * outputs].map((count) =>
      memory.allocate(count * 4, "a matrix"),
    ) as [bigint, bigint, bigint];
    staging.upload(x, new Float32Array(rows * inputs).fill(1));
    staging.upload(weight, new Float32Array(outputs * inputs).fill(2));
    staging.upload(out, new Float32Array(rows * outputs).fill(100));
    const shape = { rows, outputs, inputs, element: "f32", out: "f32" } as const;
    expect(products.multiply(shape, { out, x, weight, accumulate: true })).toBe(true);
    const result = new Float32Array(rows * outputs);
    staging.download(result, out);
    expect(new Set(result)).toEqual(new Set([116]));

    // Of its own bucket, and of those of fewer rows that are left to cuBLASLt.
    const [name = ""] = readdirSync(folder);
    const choices: unknown = JSON.parse(readFileSync(join(folder, name), "utf8"));
    const buckets = Object.keys(choices ?? {}).map((key) => Number.parseInt(key, 10));
    const large = buckets.filter((rows) => rows >= 48);
    expect(large.sort((a, b) => a - b)).toEqual([48, 64, 96, 128, 192]);
    products.dispose();
  });

  test("captures what was not timed by cuBLASLt's own estimate", () => {
    const { products, memory, stream } = open();
    const [x, weight, out] = [64, 64, 64].map((count) => memory.allocate(count * 4, "")) as [
      bigint,
      bigint,
      bigint,
    ];
    const shape = { rows: 3, outputs: 2, inputs: 8, element: "f32", out: "f32" } as const;
    const graph = stream.capture(() => {
      expect(products.multiply(shape, { out, x, weight })).toBe(true);
    });
    expect(graph.nodeCount()).toBe(1);
    graph.destroy();
    products.dispose();
  });
});
