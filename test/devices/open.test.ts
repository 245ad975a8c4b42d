import { expect, test } from "vitest";
import { EngineError } from "#base";
import { describeDevices, openDevice } from "#devices";
import { examineCuda } from "../../src/devices/cuda/cuda-report.ts";

async function codeOf(action: () => Promise<unknown>): Promise<string> {
  try {
    await action();
  } catch (error) {
    if (error instanceof EngineError) return error.code;
    throw error;
  }
  return "nothing thrown";
}

/** Whether this machine has an NVIDIA driver, whose GPU `auto` would take. */
const hasDriver = examineCuda({}).hasDriver;

test("opens the device that is asked for", async () => {
  for (const kind of ["reference", "cpu"] as const) {
    const device = await openDevice({ kind, threads: 1 });
    expect(device.kind).toBe(kind);
    expect(device.description.startsWith(`${kind}: `)).toBe(true);
    device.dispose();
  }
});

test.skipIf(hasDriver)("says that there is no GPU, and what to use instead", async () => {
  expect(await codeOf(() => openDevice({ kind: "cuda" }))).toBe("DEVICE_UNAVAILABLE");
  await expect(openDevice({ kind: "cuda" })).rejects.toThrow(
    /^Cannot open the cuda device: .*libcuda\.so\.1.*; install the NVIDIA driver.*device: "cpu" \(--device cpu\)$/,
  );
});

test("refuses an instruction set that the processor lacks, in auto too", async () => {
  const isa = process.arch === "x64" ? "neon" : "avx2";
  for (const kind of ["auto", "cpu"] as const) {
    expect(await codeOf(() => openDevice({ kind, isa }))).toBe("DEVICE_UNAVAILABLE");
  }
});

test.skipIf(hasDriver)("auto takes the cpu where no GPU is, without a word", async () => {
  const warnings: string[] = [];
  const device = await openDevice({ kind: "auto", warn: (message) => warnings.push(message) });
  expect(device.kind).toBe("cpu");
  expect(warnings).toEqual([]);
  device.dispose();
});

test("describes every device in one line, with a remedy for those that are missing", async () => {
  const reports = await describeDevices();
  expect(reports.map((report) => report.kind)).toEqual(["cpu", "cuda", "reference"]);
  for (const { available, description, remedy } of reports) {
    expect(description).not.toContain("\n");
    expect(remedy === null).toBe(available);
  }
});
