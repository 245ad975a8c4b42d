import { describe, expect, test } from "vitest";
import { EngineError } from "#base";
import { CudaSession, type CudaSessionOptions } from "../../../src/devices/cuda/cuda-session.ts";
import { CudaDriver, cudaVersionText } from "../../../src/devices/cuda/driver/driver.ts";
import { describeGpu } from "../../../src/devices/cuda/driver/gpu.ts";
import {
  type ScriptedDriver,
  scriptedDriver,
  scriptedLibraries,
  scriptedNvrtc,
} from "./scripted-library.ts";

/** No folder of this machine is looked at. */
const settings = { toolkitRoot: "/nowhere" };

function open(driver: ScriptedDriver): CudaDriver {
  const libraries = scriptedLibraries({ "libcuda.so.1": scriptedDriver(driver) });
  return CudaDriver.open(settings, libraries);
}

function failureOf(action: () => unknown): EngineError {
  try {
    action();
  } catch (error) {
    if (error instanceof EngineError) return error;
    throw error;
  }
  throw new Error("nothing thrown");
}

async function sessionFailure(
  driver: ScriptedDriver,
  more = {},
  options: Pick<CudaSessionOptions, "ordinal" | "sharesGpus"> = {},
): Promise<EngineError> {
  const openLibrary = scriptedLibraries({ "libcuda.so.1": scriptedDriver(driver), ...more });
  try {
    await CudaSession.open({ settings, openLibrary, ...options });
  } catch (error) {
    if (error instanceof EngineError) return error;
    throw error;
  }
  throw new Error("nothing thrown");
}

describe("a machine that lacks something gets one line with the remedy", () => {
  test("no driver", () => {
    const error = failureOf(() => CudaDriver.open(settings, () => null));
    expect(error.code).toBe("DEVICE_UNAVAILABLE");
    expect(error.message).toBe(
      "Cannot open the cuda device: the NVIDIA driver's libcuda.so.1 wanted, none was found; " +
        'install the NVIDIA driver (550 or newer), or use device: "cpu" (--device cpu)',
    );
  });

  test("an old driver", () => {
    const error = failureOf(() => open({ version: 12_020 }));
    expect(error.code).toBe("DEVICE_UNAVAILABLE");
    expect(error.message).toMatch(
      /for CUDA 12\.4 or newer wanted, this one is for CUDA 12\.2; update/,
    );
  });

  test("a driver that finds no GPU", () => {
    const error = failureOf(() => open({ fails: { cuInit: 100 } }));
    expect(error.code).toBe("DEVICE_UNAVAILABLE");
    expect(error.message).toBe(
      "Cannot run cuInit on cuda: success wanted, CUDA_ERROR_100 (what the driver says); " +
        "no GPU is visible; look at nvidia-smi and CUDA_VISIBLE_DEVICES",
    );
  });

  test("no GPU of the number that is asked for", async () => {
    const error = await sessionFailure({ gpus: [] });
    expect(error.code).toBe("DEVICE_UNAVAILABLE");
    expect(error.message).toMatch(/GPU 0 wanted, 0 visible; look at nvidia-smi/);
  });

  test("[PP18] a GPU for each stage is wanted, unless they share", async () => {
    // Too old, so that the error names the one that was chosen.
    const old = { gpus: [[7, 0] as const, [7, 5] as const] };
    const alone = await sessionFailure(old, {}, { ordinal: 3 });
    expect(alone.message).toMatch(/GPU 3 wanted, 2 visible; look at nvidia-smi/);
    const shared = await sessionFailure(old, {}, { ordinal: 3, sharesGpus: true });
    expect(shared.message).toMatch(/GPU 1 has 7\.5/);
    const none = await sessionFailure({ gpus: [] }, {}, { ordinal: 3, sharesGpus: true });
    expect(none.message).toMatch(/GPU 3 wanted, 0 visible/);
  });

  test("a GPU that is too small", async () => {
    const error = await sessionFailure({ gpus: [[7, 5]] });
    expect(error.code).toBe("DEVICE_UNAVAILABLE");
    expect(error.message).toMatch(
      /capability 8\.0 or newer wanted, GPU 0 has 7\.5; use a GPU from/,
    );
  });

  test("no NVRTC", async () => {
    const error = await sessionFailure({});
    expect(error.code).toBe("DEVICE_UNAVAILABLE");
    expect(error.message).toMatch(/libnvrtc.* wanted; none found; install .* or set CUDA_HOME$/);
  });

  test("an NVRTC that is newer than the driver", async () => {
    const nvrtc = { "libnvrtc.so.13": scriptedNvrtc(13, 0) };
    const error = await sessionFailure({ version: 12_080 }, nvrtc);
    expect(error.message).toMatch(/of CUDA 12 at most, wanted; 13\.0 at libnvrtc\.so\.13 found/);
  });
});

test("a driver's stub from a toolkit is no driver", () => {
  const opened: string[] = [];
  const openLibrary = (path: string) => {
    opened.push(path);
    return null;
  };
  failureOf(() => CudaDriver.open(settings, openLibrary));
  expect(opened[0]).toBe("libcuda.so.1");
  expect(opened.some((path) => path.includes("stubs"))).toBe(false);
});

test("a driver without one of our functions is too old", () => {
  const libraries = scriptedLibraries({ "libcuda.so.1": scriptedDriver({}) });
  const error = failureOf(() =>
    CudaDriver.open(settings, (path) => {
      const library = libraries(path);
      if (library === null) return null;
      const bind = (signature: string) =>
        signature.includes("cuLaunchKernelEx") ? null : library.bind(signature);
      return { path, bind };
    }),
  );
  expect(error.message).toMatch(/a version with cuLaunchKernelEx wanted, .*550 or newer$/);
});

test("a GPU is described by its attributes", () => {
  const driver = open({
    gpus: [
      [9, 0],
      [8, 9],
    ],
  });
  expect(driver.gpuCount()).toBe(2);
  expect(describeGpu(driver, 1)).toMatchObject({
    name: "GPU 1",
    major: 8,
    minor: 9,
    multiprocessors: 132,
  });
  expect(describeGpu(driver, 1).memoryBytes).toBe(80 * 2 ** 30);
});

test("a fault of a kernel is one of the device, memory that runs out is not", () => {
  const driver = open({ fails: { cuStreamSynchronize: 700, cuMemAlloc_v2: 2, cuMemFree_v2: 1 } });
  const codeOf = (action: () => void) => failureOf(action).code;
  expect(codeOf(() => driver.run("cuStreamSynchronize", 0n))).toBe("DEVICE_FAILED");
  expect(codeOf(() => driver.run("cuMemAlloc", new BigUint64Array(1), 5))).toBe("OUT_OF_MEMORY");
  expect(failureOf(() => driver.run("cuMemFree", 0n)).message).toMatch(/bug of perigee/);
});

test("versions are written as people write them", () => {
  expect([13_000, 12_040, 12_080].map(cudaVersionText)).toEqual(["13.0", "12.4", "12.8"]);
});
