/** Steps that are kept, and results that are read late, on the emulated GPU. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { DeviceTensor } from "#devices";
import { CudaDevice } from "../../../src/devices/cuda/cuda-device.ts";
import { CudaDriver } from "../../../src/devices/cuda/driver/driver.ts";
import type { NativeValue } from "../../../src/devices/cuda/driver/native-library.ts";
import { CudaStream } from "../../../src/devices/cuda/driver/stream.ts";
import {
  GRAPHS_MAX,
  paddedBatch,
  paddedContext,
  Replays,
} from "../../../src/devices/cuda/graphs/replays.ts";
import { LateReads } from "../../../src/devices/cuda/memory/late-reads.ts";
import { describeEmulated, openSession } from "./describe-emulated.ts";
import { emulatedSettings } from "./emulated-device.ts";
import { put, scriptedDriver, scriptedLibraries } from "./scripted-library.ts";

const settings = emulatedSettings();

describe.skipIf(settings === null)("on an emulated GPU", () => {
  let device: CudaDevice;
  const warnings: string[] = [];
  beforeAll(async () => {
    const warn = (message: string) => warnings.push(message);
    device = await CudaDevice.open({ settings: settings ?? {}, warn });
  });
  afterAll(() => device.dispose());

  function floats(...values: number[]): DeviceTensor {
    const tensor = device.allocate("f32", [1, values.length]);
    device.write(tensor, Float32Array.from(values));
    return tensor;
  }

  test("a step runs at first, is captured, and is launched: each time it does the same", async () => {
    const [x, delta] = [floats(0, 0), floats(1, 2)];
    let calls = 0;
    const step = () => {
      calls++;
      device.add({ count: 1, x, delta });
    };
    for (let run = 0; run < 5; run++) device.replay("a step", step);
    expect(calls).toBe(2);
    expect(await device.readF32(x)).toEqual(Float32Array.of(5, 10));
    device.write(delta, Float32Array.of(10, 20));
    device.replay("a step", step);
    expect(await device.readF32(x)).toEqual(Float32Array.of(15, 30));
  });

  test("what cannot be captured runs op by op, with one warning for all", async () => {
    const [x, delta] = [floats(0), floats(1)];
    for (const key of ["allocates", "allocates, too"]) {
      for (let run = 0; run < 4; run++) {
        device.replay(key, () => {
          device.add({ count: 1, x, delta });
          device.release(device.allocate("f32", [1]));
        });
      }
    }
    expect(await device.readF32(x)).toEqual(Float32Array.of(8));
    expect(warnings).toEqual([
      "Cannot allocate a tensor [1] of f32 inside a graph. Steps are launched op by op",
    ]);
  });

  test("an error of a step is the step's, and its key starts anew", async () => {
    const failed = new Error("no");
    const fail = () => {
      throw failed;
    };
    expect(() => device.replay("fails", fail)).toThrow(failed);
    const [x, delta] = [floats(0), floats(1)];
    const add = () => device.add({ count: 1, x, delta });
    device.replay("fails", add);
    expect(() => device.replay("fails", fail)).toThrow(failed);
    for (let run = 0; run < 3; run++) device.replay("fails", add);
    expect(await device.readF32(x)).toEqual(Float32Array.of(4));
  });

  test("contexts are taken for the longest where launches do not depend on them", () => {
    const options = { layers: 1, blocks: 1, blockTokens: 16, kvHeads: 1, headDim: 64 };
    const shape = { sequences: 3, contextTokens: 600, contextTokensMax: 5000 };
    const cache = device.allocateKvPool({ ...options, format: "bf16" });
    expect(device.paddedContext({ ...shape, cache, format: "bf16" })).toBe(5000);
    expect(device.paddedContext({ ...shape, cache, format: "f32" })).toBe(1024);
    const most = { ...shape, contextTokensMax: 700 };
    expect(device.paddedContext({ ...most, cache, format: "f32" })).toBe(700);
  });

  test("late reads bring what was there when they were enqueued, in any order of taking", async () => {
    const tensor = device.allocate("i32", [3]);
    const reads = Array.from({ length: 40 }, (_, i) => {
      device.write(tensor, Int32Array.of(i, -i, 7));
      return device.readLater(tensor);
    });
    const found = await Promise.all(reads.reverse().map((read) => read.take()));
    expect(found).toEqual(reads.map((_, i) => Int32Array.of(39 - i, i - 39, 7)));
  });

  test("late reads of floats bring their bits, and those of much are as good", async () => {
    const read = device.readLater(floats(1.5, -2));
    expect(new Float32Array((await read.take()).buffer)).toEqual(Float32Array.of(1.5, -2));
    const long = device.allocate("i32", [100_000]);
    device.write(long, new Int32Array(100_000).fill(3));
    const found = await device.readLater(long).take();
    expect(found).toEqual(new Int32Array(100_000).fill(3));
  });

  test("marks are kept between start and stop only", () => {
    const step = () => {};
    expect(device.marks.stop()).toEqual([]);
    device.replay("nothing", step);
    device.marks.start();
    device.marks.add("here");
    device.replay("nothing", step);
    const marks = device.marks.stop();
    const found = marks.map(({ label, key }) => [label, key]);
    expect(found).toEqual([
      ["here", ""],
      ["step", "nothing"],
      ["step done", "nothing"],
    ]);
    expect(marks.every(({ ms }) => ms >= 0)).toBe(true);
    expect(device.marks.stop()).toEqual([]);
  });
});

describeEmulated("parts of a session on an emulated GPU", openSession, (session) => {
  test("the least recently used graph goes first, when it is idle", () => {
    const replays = new Replays({ stream: session.stream, graphsMax: 2, idleRuns: 3 });
    const calls: string[] = [];
    const run = (key: string) => replays.run(key, () => calls.push(key));
    for (const key of ["a", "a", "b", "b", "a"]) run(key);
    expect(replays.graphs).toBe(2);
    // There is no room for c in its second run; in its third one b was not run four times.
    for (const key of ["c", "c", "a", "c", "c"]) run(key);
    expect(calls).toEqual(["a", "a", "b", "b", "c", "c", "c"]);
    expect(replays.graphs).toBe(2);
    for (const key of ["a", "c", "a"]) run(key);
    expect(calls).toHaveLength(7);
    run("b");
    expect(calls.at(-1)).toBe("b");
    replays.dispose();
    expect(replays.graphs).toBe(0);
  });

  test("more sizes in turn than are kept are not captured again and again", () => {
    const replays = new Replays({ stream: session.stream, graphsMax: 3, idleRuns: 10 });
    const calls: number[] = [];
    for (let round = 0; round < 20; round++) {
      for (let key = 0; key < 5; key++) replays.run(`${key}`, () => calls.push(key));
    }
    expect(replays.graphs).toBe(3);
    // Two runs of those that are kept, every run of the two others.
    expect(calls).toHaveLength(3 * 2 + 2 * 20);
    replays.dispose();
  });

  test("keys that come once are not remembered for good", () => {
    const replays = new Replays({ stream: session.stream, graphsMax: 2 });
    let calls = 0;
    const run = (key: string) => replays.run(key, () => calls++);
    for (const key of ["kept", "kept", "first"]) run(key);
    for (let key = 0; key < 8; key++) run(`${key}`);
    calls = 0;
    for (const key of ["kept", "first", "first"]) run(key);
    expect(calls).toBe(2);
    replays.dispose();
  });

  test("a cell whose result was not taken is reused, and its result stays", async () => {
    const { driver, memory, stream, staging } = session;
    const reads = new LateReads({ driver, memory, stream, cells: 2, cellBytes: 8 });
    const address = memory.allocate(8, "two integers");
    const all = [1, 2, 3, 4, 5].map((value) => {
      staging.upload(address, Int32Array.of(value, -value));
      return reads.read(address, 2);
    });
    const found = await Promise.all(all.map((read) => read.take()));
    expect(found.map(([value]) => value)).toEqual([1, 2, 3, 4, 5]);
    expect(() => reads.read(address, 3)).toThrow("Cannot read 3 elements late");
    reads.dispose();
  });
});

describe("a graph that cannot be launched", () => {
  test.for([
    { when: "at first", good: 0 },
    { when: "later", good: 2 },
  ])("$when goes, and its key starts anew", ({ good }) => {
    let launches = 0;
    let destroyed = 0;
    const script = {
      ...scriptedDriver({}),
      cuGraphLaunch: () => (launches++ < good ? 0 : 700),
      // What such a device says to everything.
      cuGraphExecDestroy: () => {
        destroyed++;
        return 700;
      },
    };
    const open = scriptedLibraries({ "libcuda.so.1": script });
    const driver = CudaDriver.open({ toolkitRoot: "/nowhere" }, open);
    const replays = new Replays({ stream: new CudaStream(driver) });
    let calls = 0;
    const run = () => replays.run("a step", () => calls++);
    for (let i = 0; i < 1 + good; i++) run();
    expect(run).toThrow("cuGraphLaunch");
    expect([replays.graphs, destroyed, calls]).toEqual([0, 1, 2]);
    run();
    expect([replays.graphs, calls]).toEqual([0, 3]);
  });
});

/** A driver that numbers graphs and remembers which are not destroyed; one call of it fails. */
function countedGraphs(failing: string) {
  const [templates, runnable] = [new Set<number>(), new Set<number>()];
  let made = 0;
  const make = (kept: Set<number>, out?: NativeValue) => {
    kept.add(++made);
    return put(out, made);
  };
  const script: ReturnType<typeof scriptedDriver> = {
    ...scriptedDriver({}),
    cuStreamEndCapture: (_stream, out) => make(templates, out),
    cuGraphInstantiateWithFlags: (out) => make(runnable, out),
    cuGraphDestroy: (graph) => (templates.delete(Number(graph)) ? 0 : 1),
    cuGraphExecDestroy: (graph) => (runnable.delete(Number(graph)) ? 0 : 1),
  };
  const works = script[failing];
  script[failing] = (...args) => {
    // What is destroyed with an error is gone all the same.
    if (failing.endsWith("Destroy")) works?.(...args);
    return 2;
  };
  const open = scriptedLibraries({ "libcuda.so.1": script });
  const driver = CudaDriver.open({ toolkitRoot: "/nowhere" }, open);
  return { driver, left: () => [templates.size, runnable.size] };
}

test.for([
  { call: "cuStreamBeginCapture_v2", captures: false },
  { call: "cuStreamEndCapture", captures: false },
  { call: "cuGraphInstantiateWithFlags", captures: false },
  { call: "cuGraphUpload", captures: false },
  { call: "cuGraphDestroy", captures: true },
  { call: "cuGraphLaunch", captures: false },
])("no graph is left behind when $call fails", ({ call, captures }) => {
  const { driver, left } = countedGraphs(call);
  const warnings: string[] = [];
  const warn = (message: string) => warnings.push(message);
  const replays = new Replays({ stream: new CudaStream(driver), warn });
  const run = (): void => replays.run("a step", () => {});
  run();
  if (call === "cuGraphLaunch") expect(run).toThrow(call);
  else run();
  const kept = captures ? 1 : 0;
  expect([replays.graphs, ...left()]).toEqual([kept, 0, kept]);
  expect(warnings).toHaveLength(captures || call === "cuGraphLaunch" ? 0 : 1);
  replays.dispose();
  expect([replays.graphs, ...left()]).toEqual([0, 0, 0]);
});

describe("batches are filled up", () => {
  test("to one of few sizes, never beyond the most", () => {
    const sizes = new Set(Array.from({ length: 300 }, (_, i) => paddedBatch(i + 1, 300)));
    const expected = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64];
    for (let size = 80; size <= 256; size += 16) expected.push(size);
    expect([...sizes]).toEqual([...expected, 288, 300]);
  });

  test("by less than a quarter beyond 64", () => {
    expect([513, 1025, 2049, 3600, 5000].map((count) => paddedBatch(count, 8192))).toEqual([
      576, 1280, 2560, 4096, 5120,
    ]);
    for (let count = 65; count <= 8192; count++) {
      expect(paddedBatch(count, 8192)).toBeLessThanOrEqual(count * 1.25);
    }
  });

  test("and contexts to powers of two, or of four where there are many sequences", () => {
    const padded = (sequences: number) =>
      [1, 512, 513, 2000, 100_000].map((tokens) => paddedContext(tokens, sequences));
    expect(padded(8)).toEqual([512, 512, 1024, 2048, 131_072]);
    expect(padded(12)).toEqual([512, 512, 2048, 2048, 131_072]);
  });

  test.for([
    [256, 131_072],
    [500, 131_072],
    [4096, 131_072],
    [4096, 100_000],
  ] as const)(
    "to as many sizes as graphs are kept: %i sequences of %i tokens",
    ([sequencesMax, tokensMax]) => {
      let sizes = 0;
      for (let count = 1; count <= sequencesMax; ) {
        const sequences = paddedBatch(count, sequencesMax);
        for (let tokens = 1; tokens <= tokensMax; sizes++) {
          tokens = Math.min(paddedContext(tokens, sequences), tokensMax) + 1;
        }
        count = sequences + 1;
      }
      expect(sizes).toBeLessThanOrEqual(GRAPHS_MAX);
    },
  );

  test("not without graphs", async () => {
    if (settings === null) return;
    const device = await CudaDevice.open({ settings: { ...settings, graphs: false } });
    expect(device.replays).toBe(false);
    expect(device.paddedBatch(13, 100)).toBe(13);
    let calls = 0;
    for (let run = 0; run < 4; run++) device.replay("a step", () => calls++);
    expect(calls).toBe(4);
    device.dispose();
  });
});
