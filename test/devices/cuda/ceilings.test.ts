/** What an emulated GPU allows, with and without cuBLASLt. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { measureCeilings } from "../../../src/devices/cuda/ceilings.ts";
import { CudaSession } from "../../../src/devices/cuda/cuda-session.ts";
import { emulatedSettings } from "./emulated-device.ts";

const settings = emulatedSettings();

describe.skipIf(settings === null)("ceilings of an emulated GPU", () => {
  let session: CudaSession;
  beforeAll(async () => {
    session = await CudaSession.open({ settings: settings ?? {} });
  }, 600_000);
  afterAll(() => session.dispose());

  test("are of copies and of products", () => {
    const ceilings = measureCeilings(session, settings ?? {});
    expect(ceilings.copyGBs).toBeGreaterThan(0);
    expect(ceilings.bf16TFLOPs).toBeGreaterThan(0);
    expect(ceilings).not.toHaveProperty("bf16Unknown");
  });

  test("of products are unknown without cuBLASLt, which is the reason that is given", () => {
    const before = session.memory.size().availableBytes;
    const ceilings = measureCeilings(session, {}, () => null);
    expect(ceilings.copyGBs).toBeGreaterThan(0);
    expect(ceilings.bf16TFLOPs).toBeNull();
    expect(ceilings.bf16Unknown).toMatch(/cuBLASLt .* none found/);
    expect(session.memory.size().availableBytes).toBe(before);
  });
});
