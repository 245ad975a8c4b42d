import { expect, test } from "vitest";
import { CudaDriver } from "../../../src/devices/cuda/driver/driver.ts";
import { describeGpu } from "../../../src/devices/cuda/driver/gpu.ts";
import { PrimaryContext } from "../../../src/devices/cuda/driver/primary-context.ts";
import { CudaStream } from "../../../src/devices/cuda/driver/stream.ts";
import { CudaMemory } from "../../../src/devices/cuda/memory/memory.ts";
import { Scratch } from "../../../src/devices/cuda/memory/scratch.ts";
import { describeEmulated } from "./describe-emulated.ts";
import type { EmulatedSettings } from "./emulated-device.ts";

async function openMemory({ home }: EmulatedSettings) {
  const driver = CudaDriver.open({ home });
  const context = new PrimaryContext(driver, describeGpu(driver, 0));
  const memory = new CudaMemory(driver, new CudaStream(driver));
  const dispose = () => {
    memory.dispose();
    context.release();
  };
  return { memory, dispose };
}

describeEmulated("scratch memory on an emulated GPU", openMemory, ({ memory }) => {
  const usedBytes = () => memory.size().totalBytes - memory.size().availableBytes;

  test("gives regions that do not overlap, at whole multiples of 256 bytes apart", () => {
    const [first, second, third] = new Scratch(memory).take([1, 300, 8]);
    expect(Number(second - first)).toBe(256);
    expect(Number(third - second)).toBe(512);
  });

  test("takes memory only for more than it ever had", () => {
    const scratch = new Scratch(memory);
    const [large] = scratch.take([100_000]);
    const used = usedBytes();
    expect(scratch.take([70_000, 2000])[0]).toBe(large);
    expect(scratch.take([100_000])[0]).toBe(large);
    expect(usedBytes()).toBe(used);
    // The old region stays: a graph may still write there.
    expect(scratch.take([100_257])[0]).not.toBe(large);
    expect(usedBytes() - used).toBeGreaterThanOrEqual(150_000);
  });
});
