import { availableIsas } from "../../../src/devices/cpu/isa.ts";
import { isBuilt } from "../../../src/devices/cpu/library.ts";

/** Devices that layouts are tried on: the definitions, and the CPU's kernels where they are built. */
export const LAYOUT_DEVICES = [
  "reference" as const,
  ...(availableIsas().some(isBuilt) ? (["cpu"] as const) : []),
];
