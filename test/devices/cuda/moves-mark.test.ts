/** Marks behind moves of blocks, on a driver that says which streams are done. */

import { expect, test } from "vitest";
import { CudaDriver } from "../../../src/devices/cuda/driver/driver.ts";
import { describeGpu } from "../../../src/devices/cuda/driver/gpu.ts";
import type { NativeValue } from "../../../src/devices/cuda/driver/native-library.ts";
import { CudaStream } from "../../../src/devices/cuda/driver/stream.ts";
import type { Kernel } from "../../../src/devices/cuda/kernels/kernel-module.ts";
import { LayerMoves } from "../../../src/devices/cuda/memory/layer-moves.ts";
import { put, scriptedDriver, scriptedLibraries } from "./scripted-library.ts";

/** Streams and events have numbers as they are made; what was recorded in a busy stream is not done. */
class Streams {
  readonly busy = new Set<bigint>();
  readonly events = new Map<bigint, bigint>();
  readonly calls: string[] = [];
  #made = 0;

  driver(): CudaDriver {
    const make = (out: NativeValue | undefined) => put(out, ++this.#made);
    const script = {
      ...scriptedDriver({}),
      cuStreamCreateWithPriority: make,
      cuEventCreate: make,
      cuEventRecord: (event?: NativeValue, stream?: NativeValue) => {
        this.events.set(BigInt(event as bigint), BigInt(stream as bigint));
        return 0;
      },
      cuEventQuery: (event?: NativeValue) => {
        const stream = this.events.get(BigInt(event as bigint)) ?? 0n;
        return this.busy.has(stream) ? 600 : 0;
      },
      cuEventDestroy_v2: (event?: NativeValue) => {
        this.events.delete(BigInt(event as bigint));
        return 0;
      },
      cuEventSynchronize: () => this.#waited("cuEventSynchronize"),
      cuStreamSynchronize: () => this.#waited("cuStreamSynchronize"),
      cuCtxSynchronize: () => this.#waited("cuCtxSynchronize"),
    };
    const open = scriptedLibraries({ "libcuda.so.1": script });
    return CudaDriver.open({ toolkitRoot: "/nowhere" }, open);
  }

  #waited(name: string): number {
    this.calls.push(name);
    return 0;
  }
}

test("a mark is done when the moves' streams are, though a step still runs", () => {
  const streams = new Streams();
  const driver = streams.driver();
  const steps = new CudaStream(driver);
  const kernel = {} as Kernel; // Nothing is moved, so that it is never launched.
  const moves = new LayerMoves({ driver, gpu: describeGpu(driver, 0), stream: steps, kernel });
  const mark = moves.mark();
  const marked = [...streams.events.values()];
  expect(marked).toHaveLength(2);
  expect(marked).not.toContain(steps.handle);

  streams.busy.add(steps.handle);
  for (const stream of marked) streams.busy.add(stream);
  expect(mark.isDone()).toBe(false);
  streams.busy.delete(marked[0] ?? 0n);
  expect(mark.isDone()).toBe(false);
  streams.busy.delete(marked[1] ?? 0n);
  expect(mark.isDone()).toBe(true);
  expect(mark.isDone()).toBe(true);
  // Its events are gone, and nothing waited for them.
  expect(streams.events.size).toBe(0);
  expect(streams.calls).toEqual([]);
});
