import { expect, test } from "vitest";
import { CudaDriver } from "../../../src/devices/cuda/driver/driver.ts";
import { Kernel } from "../../../src/devices/cuda/kernels/kernel-module.ts";
import { scriptedDriver, scriptedLibraries } from "./scripted-library.ts";

test("a kernel asks the driver for shared memory when it needs more than before", () => {
  const asked: unknown[] = [];
  const script = scriptedDriver({});
  script.cuFuncSetAttribute = (_kernel, _attribute, bytes) => {
    asked.push(bytes);
    return 0;
  };
  const libraries = scriptedLibraries({ "libcuda.so.1": script });
  const kernel = new Kernel(CudaDriver.open({}, libraries), "norm", 1n);
  for (const bytes of [65_536, 65_536, 49_152, 98_304, 98_304]) kernel.allowSharedBytes(bytes);
  expect(asked).toEqual([65_536, 98_304]);
});
