import { expect, test } from "vitest";
import { KernelParams } from "../../../src/devices/cuda/kernels/kernel-params.ts";

function viewOf(params: KernelParams): DataView {
  return new DataView(params.structBytes().buffer);
}

test("fields lie where C++ puts them, padding included", () => {
  // struct { void* a; int b; float c; int d; void* e; int64_t f; int g; }
  const params = new KernelParams(["pointer", "i32", "f32", "i32", "pointer", "i64", "i32"]);
  params.fill(0xfedc_ba98_7654_3210n, -2, 1.5, 7, null, 2 ** 40, 9);
  const view = viewOf(params);
  expect(view.getBigUint64(0, true)).toBe(0xfedc_ba98_7654_3210n);
  expect(view.getInt32(8, true)).toBe(-2);
  expect(view.getFloat32(12, true)).toBe(1.5);
  expect(view.getInt32(16, true)).toBe(7);
  expect(view.getBigUint64(24, true)).toBe(0n);
  expect(view.getBigInt64(32, true)).toBe(2n ** 40n);
  expect(view.getInt32(40, true)).toBe(9);
  expect(view.byteLength).toBe(48);
});

test("an array of ints follows the fields", () => {
  const params = new KernelParams(["pointer", "i32"], 4);
  params.fill(1n, 2);
  params.tail.set([3, 4, 5, 6]);
  const view = viewOf(params);
  expect([12, 16, 20, 24].map((at) => view.getInt32(at, true))).toEqual([3, 4, 5, 6]);
});

test("addresses stay as they are, whatever is filled in", () => {
  const params = new KernelParams(["pointer"]);
  const { configAddress, arrayAddress } = params;
  for (let i = 0; i < 1000; i++) params.fill(BigInt(i));
  expect(params.configAddress).toBe(configAddress);
  expect(params.arrayAddress).toBe(arrayAddress);
});

test("a wrong number of arguments, or a number for an address, is a bug", () => {
  const params = new KernelParams(["pointer", "i32"]);
  expect(() => params.fill(1n)).toThrow("Cannot fill 1 of 2 kernel arguments");
  expect(() => params.fill(5, 1)).toThrow("Cannot pass 5 as an address");
});
