/** Suites of tests on the emulated GPU. */
import { afterAll, describe, test } from "vitest";
import { CudaSession } from "../../../src/devices/cuda/cuda-session.ts";
import { DevicePair } from "../../contracts/device-ops/pair.ts";
import { type EmulatedSettings, emulatedSettings, openEmulated } from "./emulated-device.ts";

/**
 * A suite that works with what `open` opens on the emulated GPU, and disposes of it at its end.
 * Skipped where there is no such GPU. Kernels are compiled by it, which may take a minute at first.
 */
export function describeEmulated<Opened extends { dispose(): void }>(
  title: string,
  open: (settings: EmulatedSettings) => Promise<Opened>,
  suite: (opened: Opened) => void,
): void {
  const settings = emulatedSettings();
  if (settings === null) {
    describe.skip(title, () => {
      test("a C++ compiler on x64 Linux is wanted", () => {});
    });
    return;
  }
  describe(title, async () => {
    const opened = await open(settings);
    afterAll(() => opened.dispose());
    suite(opened);
  });
}

/** The emulated GPU beside the definitions of ops. */
export async function openPair(): Promise<DevicePair> {
  return new DevicePair(await openEmulated());
}

/** The emulated GPU below the device's ops. */
export function openSession(settings: EmulatedSettings): Promise<CudaSession> {
  return CudaSession.open({ settings });
}
