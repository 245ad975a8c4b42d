import { CpuDevice } from "../../../src/devices/cpu/cpu-device.ts";
import { availableIsas } from "../../../src/devices/cpu/isa.ts";
import { isBuilt } from "../../../src/devices/cpu/library.ts";
import { deviceOpsContract } from "../../contracts/device-ops.ts";
import { sized } from "../../support/full.ts";

// The short run has the best instruction set, which the library takes; the others are compiled from
// the same source.
for (const isa of availableIsas().filter(isBuilt).slice(0, sized(1, undefined))) {
  deviceOpsContract(`cpu ops, ${isa}`, () => CpuDevice.open({ isa, threads: 3 }));
}
