import { CpuDevice } from "../../../src/devices/cpu/cpu-device.ts";
import { availableIsas } from "../../../src/devices/cpu/isa.ts";
import { isBuilt } from "../../../src/devices/cpu/library.ts";
import { parityContract } from "../../contracts/parity.ts";

for (const isa of availableIsas().filter(isBuilt)) {
  parityContract(`cpu, ${isa}`, () => CpuDevice.open({ isa, threads: 2 }), {
    logits: 1e-4,
    hidden: 1e-4,
  });
}
