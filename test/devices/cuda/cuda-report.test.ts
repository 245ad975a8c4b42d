import { expect, test } from "vitest";
import { examineCuda, reportLines } from "../../../src/devices/cuda/cuda-report.ts";
import { put, scriptedDriver, scriptedLibraries, scriptedNvrtc } from "./scripted-library.ts";

const settings = { toolkitRoot: "/nowhere" };
const cublas = { cublasLtGetVersion: () => 130_101 };
const nccl = { ncclGetVersion: (out?: unknown) => put(out as Int32Array, 23_007) };

test("a machine without a driver has nothing to tell", () => {
  const report = examineCuda(settings, () => null);
  expect(report).toMatchObject({ hasDriver: false, driver: null, gpus: [], libraries: [] });
  expect(reportLines(report)).toEqual([]);
});

test("a whole machine has no problem, and says where everything is", () => {
  const report = examineCuda(
    settings,
    scriptedLibraries({
      "libcuda.so.1": scriptedDriver({}),
      "libnvrtc.so.13": scriptedNvrtc(13, 0),
      "libcublasLt.so.13": cublas,
      "libnccl.so.2": nccl,
    }),
  );
  expect(report).toMatchObject({ hasDriver: true, problem: null });
  const lines = reportLines(report).join("\n");
  expect(lines).toMatch(/^GPU 0: GPU 0, compute capability 9\.0, 132 multiprocessors, 80\.0 GiB$/m);
  expect(lines).toMatch(/^driver .*CUDA 13\.0.* at libcuda\.so\.1$/m);
  expect(lines).toMatch(/^NVRTC 13\.0 at libnvrtc\.so\.13$/m);
  expect(lines).toMatch(/^cuBLASLt 13\.1 at libcublasLt\.so\.13$/m);
  expect(lines).toMatch(/^NCCL 2\.30\.7 at libnccl\.so\.2$/m);
});

test("what is missing is the problem, NCCL excepted", () => {
  const report = examineCuda(
    settings,
    scriptedLibraries({
      "libcuda.so.1": scriptedDriver({ version: 12_040 }),
      "libnvrtc.so.12": scriptedNvrtc(12, 4),
    }),
  );
  expect(report.problem).toMatch(/libcublasLt.*none found; install/);
  expect(reportLines(report)).toContain("NCCL none; only models on several GPUs need it");
});

test("a GPU that is too small is said to be", () => {
  const libraries = { "libcuda.so.1": scriptedDriver({ gpus: [[6, 1]] }) };
  expect(examineCuda(settings, scriptedLibraries(libraries)).problem).toMatch(
    /^compute capability 8\.0 or newer wanted, GPU 0 has 6\.1/,
  );
});

test("an old driver is there, but will not do", () => {
  const libraries = { "libcuda.so.1": scriptedDriver({ version: 11_080 }) };
  const report = examineCuda(settings, scriptedLibraries(libraries));
  expect(report.hasDriver).toBe(true);
  expect(report.problem).toMatch(/this one is for CUDA 11\.8/);
});
