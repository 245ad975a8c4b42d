/** Every recorded model on the emulated GPU (emulator/build.mjs), in fp32. */
import { describe, test } from "vitest";
import { parityContract } from "../../contracts/parity.ts";
import { emulationWanted, openEmulated } from "./emulated-device.ts";

const name = "cuda, emulated";
if (emulationWanted) {
  parityContract(name, openEmulated, { logits: 1e-3, hidden: 1e-3 });
} else {
  // Eight minutes of emulation; PERIGEE_EMULATED_GPU=1 asks for them.
  describe.skip(name, () => {
    test("models compute what was recorded", () => {});
  });
}
