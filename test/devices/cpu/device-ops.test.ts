import { CpuDevice } from "../../../src/devices/cpu/cpu-device.ts";
import { availableIsas } from "../../../src/devices/cpu/isa.ts";
import { isBuilt } from "../../../src/devices/cpu/library.ts";
import { deviceOpsContract } from "../../contracts/device-ops.ts";

for (const isa of availableIsas().filter(isBuilt)) {
  deviceOpsContract(`cpu ops, ${isa}`, () => CpuDevice.open({ isa, threads: 3 }));
}
