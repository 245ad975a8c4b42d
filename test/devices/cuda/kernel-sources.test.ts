import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { KERNEL_FILE_NAMES, KERNEL_FILES } from "../../../src/devices/cuda/kernels/kernel-names.ts";
import { kernelFolder, readKernel } from "../../../src/devices/cuda/kernels/kernel-sources.ts";

test("every file of kernels is listed, and has the kernels that it is listed with", () => {
  const files = readdirSync(kernelFolder).filter((name) => name.endsWith(".cu"));
  expect(files.map((name) => name.slice(0, -3)).sort()).toEqual([...KERNEL_FILE_NAMES].sort());
  for (const file of KERNEL_FILE_NAMES) {
    const { text } = readKernel(file);
    const found = [
      ...text.matchAll(/PERIGEE_KERNEL\s+(?:__launch_bounds__\([^)]*\)\s+)?perigee_(\w+)\(/g),
      ...text.matchAll(/^PERIGEE_ATTEND_\w+\((\w+),/gm),
    ];
    expect(found.map(([, name]) => name).sort()).toEqual([...KERNEL_FILES[file]].sort());
  }
});

test("a kernel comes with the headers that it includes, also through others, and no more", () => {
  const { path, headers } = readKernel("norm");
  expect(path).toBe("native/cuda/norm.cu");
  expect(Object.keys(headers).sort()).toEqual([
    "block-sum.h",
    "float-bits.h",
    "numbers.h",
    "packed-rows.h",
    "params.h",
    "row-quads.h",
    "stream-order.h",
  ]);
});

test("sources include none of CUDA's headers: NVRTC may be all there is", () => {
  for (const file of KERNEL_FILE_NAMES) {
    const { text, headers } = readKernel(file);
    for (const each of [text, ...Object.values(headers)]) expect(each).not.toMatch(/#include\s*</);
  }
});

test("a missing file is an installation that is not whole", () => {
  expect(() => readKernel("nosuch")).toThrow(
    /native\/cuda\/nosuch\.cu wanted.*install perigee again/,
  );
});
