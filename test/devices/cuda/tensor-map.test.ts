import { expect, test } from "vitest";
import { CudaDriver } from "../../../src/devices/cuda/driver/driver.ts";
import type { NativeValue } from "../../../src/devices/cuda/driver/native-library.ts";
import { tensorMapFields } from "../../../src/devices/cuda/kernels/tensor-map.ts";
import { scriptedDriver, scriptedLibraries } from "./scripted-library.ts";

const options = {
  address: 4096n,
  sizes: [128, 16, 2, 8, 1000],
  strides: [256, 4096, 8192, 65_536],
  box: [64, 16, 1, 1, 1],
};

/** A driver that notes what it is asked to encode. */
function notingDriver(status = 0) {
  const asked: NativeValue[][] = [];
  const script = scriptedDriver({});
  script.cuTensorMapEncodeTiled = (...args) => {
    asked.push([...args]);
    return status;
  };
  const driver = CudaDriver.open({}, scriptedLibraries({ "libcuda.so.1": script }));
  return { driver, asked };
}

test("a tensor map is asked for with sizes and strides in the driver's widths", () => {
  const { driver, asked } = notingDriver();
  expect(tensorMapFields(driver, options)).toHaveLength(16);
  const [map, , rank, address, sizes, strides, box, steps] = asked[0] ?? [];
  expect(Number(map) % 64).toBe(0);
  expect([rank, address]).toEqual([5, 4096n]);
  expect(sizes).toEqual(new BigUint64Array([128n, 16n, 2n, 8n, 1000n]));
  expect(strides).toEqual(new BigUint64Array([256n, 4096n, 8192n, 65_536n]));
  expect(box).toEqual(new Uint32Array([64, 16, 1, 1, 1]));
  expect(steps).toEqual(new Uint32Array(5).fill(1));
});

test("a map that the driver refuses is an error", () => {
  const { driver } = notingDriver(1);
  expect(() => tensorMapFields(driver, options)).toThrow(/cuTensorMapEncodeTiled/);
});
