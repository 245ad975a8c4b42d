/** What an emulated GPU allows, with and without cuBLASLt. */
import { expect, test } from "vitest";
import { measureCeilings } from "../../../src/devices/cuda/ceilings.ts";
import { describeEmulated, openSession } from "./describe-emulated.ts";
import { emulatedSettings } from "./emulated-device.ts";

const settings = emulatedSettings();

describeEmulated("ceilings of an emulated GPU", openSession, (session) => {
  test("are of copies and of GEMMs", () => {
    const ceilings = measureCeilings(session, settings ?? {});
    expect(ceilings.copyGBs).toBeGreaterThan(0);
    expect(ceilings.bf16TFLOPs).toBeGreaterThan(0);
    expect(ceilings).not.toHaveProperty("bf16Unknown");
  });

  test("of GEMMs are unknown without cuBLASLt, which is the reason given", () => {
    const before = session.memory.size().availableBytes;
    const ceilings = measureCeilings(session, {}, () => null);
    expect(ceilings.copyGBs).toBeGreaterThan(0);
    expect(ceilings.bf16TFLOPs).toBeNull();
    expect(ceilings.bf16Unknown).toMatch(/cuBLASLt .* none found/);
    expect(session.memory.size().availableBytes).toBe(before);
  });
});
