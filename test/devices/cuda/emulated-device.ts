import { join } from "node:path";
import { CudaDevice } from "../../../src/devices/cuda/cuda-device.ts";
import { buildEmulator } from "./emulator/build.mjs";

/**
 * Whether all ops and models run on the emulated GPU: some minutes, which are asked for by
 * PERIGEE_EMULATED_GPU=1.
 */
export const emulationWanted = process.env.PERIGEE_EMULATED_GPU === "1";

/** The cuda device on the emulated GPU, where there is a C++ compiler for x64. */
export function openEmulated(): Promise<CudaDevice> {
  const settings = emulatedSettings();
  if (settings === null) throw new Error("A C++ compiler on x64 Linux is wanted");
  return CudaDevice.open({ settings });
}

/** Where the emulated GPU's libraries and its kernels are. */
export interface EmulatedSettings {
  readonly home: string;
  readonly cacheFolder: string;
}

/** Null where they cannot be built. */
export function emulatedSettings(): EmulatedSettings | null {
  const home = buildEmulator();
  // Kernels are kept with the emulator that compiled them.
  return home === null ? null : { home, cacheFolder: join(home, "kernels") };
}
