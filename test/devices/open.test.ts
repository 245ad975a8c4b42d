import { expect, test } from "vitest";
import { EngineError } from "#base";
import { describeDevices, openDevice } from "#devices";

function codeOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (error instanceof EngineError) return error.code;
    throw error;
  }
  return "nothing thrown";
}

test("opens the device that is asked for", () => {
  for (const kind of ["reference", "cpu"] as const) {
    const device = openDevice({ kind, threads: 1 });
    expect(device.kind).toBe(kind);
    expect(device.description.startsWith(`${kind}: `)).toBe(true);
    device.dispose();
  }
});

test("says that cuda is not here, and what to use instead", () => {
  expect(codeOf(() => openDevice({ kind: "cuda" }))).toBe("DEVICE_UNAVAILABLE");
  expect(() => openDevice({ kind: "cuda" })).toThrow("use --device cpu");
});

test("refuses an instruction set that the processor lacks, in auto too", () => {
  const isa = process.arch === "x64" ? "neon" : "avx2";
  for (const kind of ["auto", "cpu"] as const) {
    expect(codeOf(() => openDevice({ kind, isa }))).toBe("DEVICE_UNAVAILABLE");
  }
});

test("auto takes the cpu where its library was built, without a word", () => {
  const warnings: string[] = [];
  const device = openDevice({ kind: "auto", warn: (message) => warnings.push(message) });
  expect(device.kind).toBe("cpu");
  expect(warnings).toEqual([]);
  device.dispose();
});

test("describes every device in one line, with a remedy for those that are missing", () => {
  const reports = describeDevices();
  expect(reports.map((report) => report.kind)).toEqual(["cpu", "cuda", "reference"]);
  for (const { available, description, remedy } of reports) {
    expect(description).not.toContain("\n");
    expect(remedy === null).toBe(available);
  }
});
