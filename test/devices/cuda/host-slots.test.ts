/** Slots of host memory on the emulated GPU, and the order of their copies on a scripted driver. */
import { expect, test } from "vitest";
import { CudaDriver } from "../../../src/devices/cuda/driver/driver.ts";
import type { NativeValue } from "../../../src/devices/cuda/driver/native-library.ts";
import { CudaStream } from "../../../src/devices/cuda/driver/stream.ts";
import { CudaTensor } from "../../../src/devices/cuda/memory/handles.ts";
import { CudaHostSlots } from "../../../src/devices/cuda/memory/host-slots.ts";
import { CudaMemory } from "../../../src/devices/cuda/memory/memory.ts";
import { hostSlots } from "../../contracts/device-ops/host-slots.ts";
import { describeEmulated } from "./describe-emulated.ts";
import { openEmulated } from "./emulated-device.ts";
import { put, scriptedDriver, scriptedLibraries } from "./scripted-library.ts";

describeEmulated("slots of host memory", openEmulated, (device) => hostSlots(() => device));

/** A driver that writes down what is enqueued on which stream; streams and events have numbers. */
function writtenDown(fails: Readonly<Record<string, number>> = {}) {
  const calls: string[] = [];
  let made = 0;
  const make = (out?: NativeValue) => put(out, ++made);
  const on = (name: string, text: (...args: readonly NativeValue[]) => string) => ({
    [name]: (...args: readonly NativeValue[]) => {
      calls.push(text(...args));
      return 0;
    },
  });
  const script = {
    ...scriptedDriver({}),
    ...{ cuStreamCreateWithPriority: make, cuEventCreate: make, cuMemAlloc_v2: make },
    ...on("cuStreamWaitEvent", (stream, event) => `${stream} waits ${event}`),
    ...on("cuEventRecord", (event, stream) => `${stream} records ${event}`),
    ...on("cuMemcpyDtoDAsync_v2", (to, from, _bytes, stream) => `${stream} ${from} -> ${to}`),
    ...on("cuMemcpyDtoHAsync_v2", (_to, from, _bytes, stream) => `${stream} ${from} -> host`),
    ...on("cuMemcpyHtoDAsync_v2", (to, _from, _bytes, stream) => `${stream} host -> ${to}`),
    ...on("cuMemHostRegister_v2", () => "pin"),
    ...on("cuMemHostUnregister", () => "unpin"),
    ...on("cuStreamSynchronize", (stream) => `host waits for ${stream}`),
    ...Object.fromEntries(Object.entries(fails).map(([name, status]) => [name, () => status])),
  };
  const driver = CudaDriver.open(
    { toolkitRoot: "/nowhere" },
    scriptedLibraries({ "libcuda.so.1": script }),
  );
  const stream = new CudaStream(driver);
  const memory = new CudaMemory(driver, stream);
  return { calls, parts: { driver, stream, memory } };
}

const slots = [new Uint8Array(64), new Uint8Array(64)];
const tensor = new CudaTensor("f32", [16], 77n);

// Streams, events and memory in the order in which they are made: ops 1; rooms 2 and 5, each with
// its events filled and read; the copies' stream 8.
test("[PP13] on the way out no step waits for the host, and only the second one for a copy", () => {
  const { calls, parts } = writtenDown();
  const out = new CudaHostSlots(parts, slots, "out");
  // New memory is filled by the ops' stream.
  expect(calls.splice(0)).toEqual(["1 records 4", "1 records 7", "pin", "pin"]);
  for (let step = 0; step < 3; step++) out.put(step % 2, tensor);
  const copies = calls.filter((call) => !/records (9|1\d)$/.test(call));
  const first = ["1 77 -> 2", "1 records 3", "8 waits 3", "8 2 -> host", "8 records 4"];
  const second = ["1 77 -> 5", "1 records 6", "8 waits 6", "8 5 -> host", "8 records 7"];
  expect(copies).toEqual([
    ...["1 waits 4", ...first],
    ...["1 waits 7", ...second],
    ...["1 waits 4", ...first],
  ]);
  calls.length = 0;
  out.dispose();
  expect(calls).toEqual(["host waits for 8", "unpin", "unpin"]);
});

test("[PP13] on the way in a copy waits for room alone, and ops for the copy alone", () => {
  const { calls, parts } = writtenDown();
  const into = new CudaHostSlots(parts, slots, "in");
  calls.length = 0;
  for (let step = 0; step < 2; step++) into.take(step, tensor);
  const copies = calls.filter((call) => !/records (9|1\d)$/.test(call));
  expect(copies).toEqual([
    ...["8 waits 4", "8 host -> 2", "8 records 3", "1 waits 3", "1 2 -> 77", "1 records 4"],
    ...["8 waits 7", "8 host -> 5", "8 records 6", "1 waits 6", "1 5 -> 77", "1 records 7"],
  ]);
});

test("memory that cannot be pinned is used as it is, with a warning", () => {
  const { calls, parts } = writtenDown({ cuMemHostRegister_v2: 2 });
  const warnings: string[] = [];
  const warn = (message: string) => warnings.push(message);
  const out = new CudaHostSlots({ ...parts, warn }, slots, "out");
  expect(warnings).toEqual([expect.stringMatching(/^2 slots of 64 bytes .* \(ulimit -l\)$/)]);
  out.put(0, tensor);
  out.dispose();
  expect(calls).not.toContain("unpin");
});
