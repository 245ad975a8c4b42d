import { CpuDevice } from "../../../src/devices/cpu/cpu-device.ts";
import { peerPools } from "../../contracts/device-ops/block-moves.ts";

const device = CpuDevice.open({ threads: 1 });

peerPools(() => device);
