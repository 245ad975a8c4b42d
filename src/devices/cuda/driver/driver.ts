import { EngineError } from "#base";
import { bindDriver, type DriverCalls } from "./driver-calls.ts";
import { type CudaSettings, libraryCandidates } from "./library-search.ts";
import { loadedPath } from "./loaded-path.ts";
import {
  type NativeLibrary,
  type NativeValue,
  type OpenLibrary,
  openSystemLibrary,
} from "./native-library.ts";
import { driverError } from "./status.ts";

/** A version of CUDA, as libraries report it: 1000 * major + 10 * minor. */
export type CudaVersion = number;

/**
 * Oldest supported driver, CUDA 12.4 (550): the first long-lived one whose graphs keep the overlap
 * of dependent launches (12.3), with concurrent NVRTC (12.1) and fp8 in cuBLASLt (12.0).
 */
export const DRIVER_VERSION_MIN: CudaVersion = 12_040;

/** `12.4`. */
export function cudaVersionText(version: CudaVersion): string {
  return `${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}`;
}

/** Folders of drivers in containers, which the system's loader does not search. */
const driverFolders = ["/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/usr/lib64"];

/** libcuda, initialised. */
export class CudaDriver {
  /** The functions themselves, for calls that happen thousands of times a second. */
  readonly calls: DriverCalls;
  readonly version: CudaVersion;
  readonly path: string;

  private constructor(calls: DriverCalls, version: CudaVersion, path: string) {
    this.calls = calls;
    this.version = version;
    this.path = path;
  }

  /**
   * Throws DEVICE_UNAVAILABLE, with the remedy, when there is no driver, when it is too old, or
   * when it finds no GPU.
   */
  static open(settings: CudaSettings = {}, open: OpenLibrary = openSystemLibrary): CudaDriver {
    const found = findDriver(settings, open);
    if (found === null) throw noDriver();
    const calls = bindDriver(found);
    const out = new Int32Array(1);
    // Called before cuInit: a driver that is too old, or finds no GPU, still has a version.
    check(calls, "cuDriverGetVersion", calls.cuDriverGetVersion(out));
    const version = out[0] ?? 0;
    if (version < DRIVER_VERSION_MIN) throw tooOld(version);
    check(calls, "cuInit", calls.cuInit(0));
    return new CudaDriver(calls, version, loadedPath(found.path));
  }

  /** Calls one function. Throws the error of `status.ts` for a status other than success. */
  run(name: keyof DriverCalls, ...args: readonly NativeValue[]): void {
    check(this.calls, name, this.calls[name](...args));
  }

  /** The same for the status of a call that was already made. */
  check(name: keyof DriverCalls, status: number): void {
    if (status !== 0) check(this.calls, name, status);
  }

  /** Number of GPUs that this process sees. */
  gpuCount(): number {
    const count = new Int32Array(1);
    this.run("cuDeviceGetCount", count);
    return count[0] ?? 0;
  }
}

/** The driver's library; null on a machine without one. */
export function findDriver(settings: CudaSettings, open: OpenLibrary): NativeLibrary | null {
  const name = { stem: "libcuda", versions: [".so.1"], folders: driverFolders };
  for (const path of libraryCandidates(name, settings)) {
    // A toolkit's stubs have the same name but no driver behind it.
    const library = path.includes("/stubs/") ? null : open(path);
    if (library !== null) return library;
  }
  return null;
}

function noDriver(): EngineError {
  return new EngineError(
    "DEVICE_UNAVAILABLE",
    "Cannot open the cuda device: the NVIDIA driver's libcuda.so.1 wanted, none was found; " +
      'install the NVIDIA driver (550 or newer), or use device: "cpu" (--device cpu)',
  );
}

function tooOld(found: CudaVersion): EngineError {
  return new EngineError(
    "DEVICE_UNAVAILABLE",
    `Cannot open the cuda device: a driver for CUDA ${cudaVersionText(DRIVER_VERSION_MIN)} or ` +
      `newer wanted, this one is for CUDA ${cudaVersionText(found)}; ` +
      'update the NVIDIA driver to 550 or newer, or use device: "cpu" (--device cpu)',
  );
}

function check(calls: DriverCalls, call: string, status: number): void {
  if (status === 0) return;
  const name: (string | null)[] = [null];
  const text: (string | null)[] = [null];
  calls.cuGetErrorName(status, name);
  calls.cuGetErrorString(status, text);
  throw driverError({
    call,
    status,
    name: name[0] ?? `CUDA status ${status}`,
    text: text[0] ?? null,
  });
}
