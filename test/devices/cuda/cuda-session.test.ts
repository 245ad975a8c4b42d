/** The binding on the emulated GPU: real FFI, real memory, kernels run by the C++ compiler's code. */
import { createHash } from "node:crypto";
import { cpSync, mkdtempSync, readdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CudaSession } from "../../../src/devices/cuda/cuda-session.ts";
import { CudaEvent } from "../../../src/devices/cuda/driver/event.ts";
import { KernelParams } from "../../../src/devices/cuda/kernels/kernel-params.ts";
import type { KernelProgress } from "../../../src/devices/cuda/kernels/kernels.ts";
import { Nvrtc } from "../../../src/devices/cuda/kernels/nvrtc.ts";
import { CublasLt } from "../../../src/devices/cuda/products/cublaslt.ts";
import { Matmul, type MatmulShape } from "../../../src/devices/cuda/products/matmul.ts";
import { RandomNumbers } from "../../contracts/device-ops/random.ts";
import { buildEmulator } from "./emulator/build.mjs";

const home = buildEmulator();
const kernels = home === null ? "" : join(home, "kernels");

const open = (more = {}) =>
  CudaSession.open({ settings: { home: home ?? "", cacheFolder: kernels }, ...more });

describe.skipIf(home === null)("on an emulated GPU", () => {
  let session: CudaSession;
  beforeAll(async () => {
    session = await open();
  });
  afterAll(() => session.dispose());

  const floats = (values: ArrayLike<number>) => {
    const address = session.memory.allocate(values.length * 4, "floats");
    session.staging.upload(address, Float32Array.from(values));
    return address;
  };
  const read = (address: bigint, count: number) => {
    const out = new Float32Array(count);
    session.staging.download(out, address);
    return [...out];
  };

  test("a captured graph does nothing until it is launched, and then each time", () => {
    const [x, delta] = [floats([1, 2, 3]), floats([10, 20, 30])];
    const params = new KernelParams(["pointer", "pointer", "i64", "i32"]);
    const { launcher, kernels } = session.context;
    const add = () =>
      launcher.launch(kernels.add, { grid: [1], threads: 32 }, params.fill(x, delta, 3, -1));
    const graph = session.stream.capture(() => {
      add();
      add();
    });
    // The arguments were taken when the launch was captured.
    params.fill(0n, 0n, 0, -1);
    expect(graph.nodeCount()).toBe(2);
    expect(read(x, 3)).toEqual([1, 2, 3]);
    const runnable = graph.instantiate();
    runnable.upload(session.stream);
    runnable.launch(session.stream);
    runnable.launch(session.stream);
    expect(read(x, 3)).toEqual([41, 82, 123]);

    const longer = session.stream.capture(() => add());
    expect(runnable.update(longer)).toBe(false);
    expect(runnable.update(graph)).toBe(true);
    for (const each of [runnable, graph, longer]) each.destroy();
  });

  test("a capture that throws leaves the stream as it was", () => {
    const failed = new Error("no");
    expect(() =>
      session.stream.capture(() => {
        throw failed;
      }),
    ).toThrow(failed);
    expect(read(floats([7]), 1)).toEqual([7]);
  });

  test("a graph neither allocates, uploads nor reads: memory would be another's by then", () => {
    const address = floats([1]);
    const two = Float32Array.of(2);
    expect(() => session.stream.capture(() => floats([2]))).toThrow("allocate floats inside");
    expect(() => session.stream.capture(() => session.staging.upload(address, two))).toThrow(
      "from inside a graph",
    );
    expect(() => session.stream.capture(() => read(address, 1))).toThrow("from inside a graph");
    expect(read(address, 1)).toEqual([1]);
  });

  test("memory that was given away may be reused at once, however late the device is", () => {
    const count = 3_000_000;
    const address = session.memory.allocate(count * 4, "a long tensor");
    const data = new Float32Array(count).fill(1);
    session.staging.upload(address, data);
    data.fill(2);
    session.staging.upload(address, data.subarray(0, 1));
    const found = read(address, count);
    expect(found[0]).toBe(2);
    expect(found.slice(1).every((value) => value === 1)).toBe(true);
    session.memory.release(address);
  });

  test("a grid without blocks is no launch, one that is too high a bug", () => {
    const params = new KernelParams(["pointer", "pointer", "i64", "i32"]).fill(0n, 0n, 0, -1);
    const { launcher, kernels } = session.context;
    launcher.launch(kernels.add, { grid: [0], threads: 32 }, params);
    launcher.launch(kernels.add, { grid: [1, 0], threads: 32 }, params);
    expect(() => launcher.launch(kernels.add, { grid: [1, 65_536], threads: 32 }, params)).toThrow(
      "Cannot launch add: a grid of [1, 65536, 1] is beyond the limit",
    );
  });

  test("memory that the GPU does not have is OUT_OF_MEMORY with the numbers", () => {
    const { availableBytes } = session.memory.size();
    expect(() => session.memory.allocate(2 ** 40, "3 KV blocks")).toThrow(
      expect.objectContaining({
        code: "OUT_OF_MEMORY",
        message:
          `Cannot allocate 3 KV blocks: 1099511627776 bytes wanted, the GPU has ${availableBytes} ` +
          "free; end other processes on it, or ask for less",
      }),
    );
    expect(() => session.memory.allocateHost(2 ** 40, "host blocks")).toThrow(/--host-cache-bytes/);
    expect(() => session.memory.release(5n)).toThrow("not allocated by this device");
  });

  test("events are done when their stream is", () => {
    const [start, end] = [new CudaEvent(session.driver, true), new CudaEvent(session.driver, true)];
    start.record(session.stream);
    end.record(session.stream);
    session.stream.waitFor(end);
    end.wait();
    expect(end.isDone()).toBe(true);
    expect(session.stream.isIdle()).toBe(true);
    expect(end.elapsedMs(start)).toBeGreaterThanOrEqual(0);
    for (const event of [start, end]) event.destroy();
  });

  describe("GEMMs", () => {
    const shape: MatmulShape = { rows: 5, outputs: 7, inputs: 11, element: "f32", out: "f32" };
    const random = new RandomNumbers(1);
    const [x, weight, bias] = [random.floats(55), random.floats(77), random.floats(7)];
    const product = (row: number, column: number) =>
      Array.from(
        { length: 11 },
        (_, k) => (x[row * 11 + k] ?? 0) * (weight[column * 11 + k] ?? 0),
      ).reduce((sum, each) => sum + each, 0);

    /** Runs one product and says how far it is from its definition. */
    function worst(given: MatmulShape, wanted: (row: number, column: number) => number): number {
      const cublas = CublasLt.open({ home: home ?? "" }, 13_090);
      const handle = cublas.create("cublasLtCreate");
      const matmul = new Matmul(cublas, given);
      const [algorithm] = matmul.algorithms(handle, 1 << 20, 4);
      if (algorithm === undefined) throw new Error("no algorithm");
      const out = floats(new Float32Array(35).fill(1));
      const withBias = given.epilogue?.endsWith("bias") === true;
      matmul.run(
        {
          out,
          x: floats(x),
          weight: floats(weight),
          ...(withBias ? { bias: floats(bias) } : { accumulate: true }),
        },
        { handle, algorithm, workspace: 0n, stream: session.stream.handle },
      );
      matmul.destroy();
      const found = read(out, 35);
      const differences = found.map((value, i) =>
        Math.abs(value - wanted(Math.floor(i / 7), i % 7)),
      );
      return Math.max(...differences);
    }

    test("rows times the transposed weight, added to what is there", () => {
      expect(worst(shape, (row, column) => 1 + product(row, column))).toBeLessThan(1e-5);
    });

    test("with a bias and an activation behind", () => {
      const biased = (row: number, column: number) => product(row, column) + (bias[column] ?? 0);
      expect(worst({ ...shape, epilogue: "bias" }, biased)).toBeLessThan(1e-5);
      expect(
        worst({ ...shape, epilogue: "relu-bias" }, (row, column) =>
          Math.max(0, biased(row, column)),
        ),
      ).toBeLessThan(1e-5);
    });

    test("a shape that cuBLASLt does not know has no algorithm", () => {
      const cublas = CublasLt.open({ home: home ?? "" }, 13_090);
      const handle = cublas.create("cublasLtCreate");
      const matmul = new Matmul(cublas, { ...shape, element: "fp8" });
      expect(matmul.algorithms(handle, 0)).toEqual([]);
      matmul.destroy();
    });
  });
});

describe.skipIf(home === null)("kernels on an emulated GPU", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "perigee-kernels-"));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** Compiled versions of a file of kernels; a folder that is used for long has those of before. */
  function kept(file: string): string[] {
    const names = readdirSync(folder).filter((name) => name.startsWith(`${file}-`));
    return names.map((name) => join(folder, name));
  }

  /** Opens with kernels in `folder` and lists which files were compiled. */
  async function compiledOnOpen(): Promise<string[]> {
    const compiled: string[] = [];
    const onProgress = ({ file, cached }: KernelProgress) => {
      if (!cached) compiled.push(file);
    };
    const settings = { home: home ?? "", cacheFolder: folder };
    (await CudaSession.open({ settings, onProgress })).dispose();
    return compiled;
  }

  test("are compiled once, and again only where their file is no good", async () => {
    (await open()).dispose();
    cpSync(kernels, folder, { recursive: true });
    expect(await compiledOnOpen()).toEqual([]);
    for (const path of kept("add")) truncateSync(path, 40);
    expect(await compiledOnOpen()).toEqual(["add"]);
    expect(await compiledOnOpen()).toEqual([]);
  });

  test("that the driver refuses are compiled again", async () => {
    const code = Buffer.from("a GPU of another kind");
    const digest = createHash("sha256").update(code).digest();
    for (const path of kept("add")) writeFileSync(path, Buffer.concat([digest, code]));
    expect(await compiledOnOpen()).toEqual(["add"]);
  });

  test("that do not compile say where", () => {
    const nvrtc = Nvrtc.openAt(join(home ?? "", "lib64", "libnvrtc.so.13"));
    const source = { path: "native/cuda/x.cu", text: "int f() {\n  return y;\n}", headers: {} };
    expect(() => nvrtc?.compile(source, [])).toThrow(/x\.cu:2: .*in `return y;`$/);
  });
});
