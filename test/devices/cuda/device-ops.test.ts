/** Every op on the emulated GPU (emulator/build.mjs), beside its definition. */
import { describe, test } from "vitest";
import { deviceOpsContract } from "../../contracts/device-ops.ts";
import { emulationWanted, openEmulated } from "./emulated-device.ts";

const name = "cuda, emulated";
if (emulationWanted) {
  const device = await openEmulated();
  deviceOpsContract(name, () => device);
} else {
  // Eight minutes of emulation; PERIGEE_EMULATED_GPU=1 asks for them.
  describe.skip(name, () => {
    test("ops equal their definitions", () => {});
  });
}
