/** The CUDA installation of this machine, examined without a context: it takes no GPU memory. */
import { readFileSync } from "node:fs";
import { EngineError } from "#base";
import {
  CAPABILITY_MIN,
  CudaDriver,
  type CudaSettings,
  cudaVersionText,
  describeGpu,
  findDriver,
  findNccl,
  type Gpu,
  gpuText,
  isSupported,
  type OpenLibrary,
  openSystemLibrary,
} from "#devices/cuda/driver";
import { Nvrtc } from "#devices/cuda/kernels";
import { CublasLt } from "#devices/cuda/products";

/** A library, or what is missing. */
export interface LibraryReport {
  /** `NVRTC`. */
  readonly name: string;
  /** `13.0 at /usr/local/cuda/lib64/libnvrtc.so.13`; null without a usable one. */
  readonly found: string | null;
  /** How to install it; null when it is there, or when most machines need none. */
  readonly remedy: string | null;
}

/** The CUDA installation of a machine. */
export interface CudaReport {
  /** Whether there is a driver at all: without one, most machines have no GPU either. */
  readonly hasDriver: boolean;
  /** `580.159.03 (CUDA 13.0) at …`; null without a usable driver. */
  readonly driver: string | null;
  readonly gpus: readonly Gpu[];
  readonly libraries: readonly LibraryReport[];
  /** Why the cuda device cannot be opened here, with the remedy; null when it can. */
  readonly problem: string | null;
}

/** Looks for the driver, its GPUs and the libraries. Throws nothing. */
export function examineCuda(
  settings: CudaSettings,
  open: OpenLibrary = openSystemLibrary,
): CudaReport {
  let driver: CudaDriver;
  let gpus: readonly Gpu[];
  try {
    driver = CudaDriver.open(settings, open);
    const opened = driver;
    gpus = Array.from({ length: driver.gpuCount() }, (_, ordinal) => describeGpu(opened, ordinal));
  } catch (error) {
    const hasDriver = findDriver(settings, open) !== null;
    return { hasDriver, driver: null, gpus: [], libraries: [], problem: reasonOf(error) };
  }
  const { version } = driver;
  const libraries = [
    libraryReport("NVRTC", () => Nvrtc.open(settings, version, open)),
    libraryReport("cuBLASLt", () => CublasLt.open(settings, version, open)),
    ncclReport(settings, open),
  ];
  const cuda = `CUDA ${cudaVersionText(version)}`;
  const release = driverRelease();
  const which = release === null ? cuda : `${release} (${cuda})`;
  return {
    hasDriver: true,
    driver: `${which} at ${driver.path}`,
    gpus,
    libraries,
    problem: gpuProblem(gpus) ?? libraries.find(({ remedy }) => remedy !== null)?.remedy ?? null,
  };
}

/** The report as lines of text, the device itself first. */
export function reportLines({ driver, gpus, libraries }: CudaReport): readonly string[] {
  return [
    ...gpus.map((gpu) => `GPU ${gpu.ordinal}: ${gpuText(gpu)}`),
    ...(driver === null ? [] : [`driver ${driver}`]),
    ...libraries.map(({ name, found, remedy }) => `${name} ${found ?? remedy ?? "none"}`),
  ];
}

function gpuProblem(gpus: readonly Gpu[]): string | null {
  if (gpus.length === 0) return "no GPU is visible; look at nvidia-smi and CUDA_VISIBLE_DEVICES";
  if (gpus.some(isSupported)) return null;
  const { major, minor } = CAPABILITY_MIN;
  const [first] = gpus;
  return (
    `compute capability ${major}.${minor} or newer wanted, ` +
    `${first?.name} has ${first?.major}.${first?.minor}; use a GPU from Ampere (2020) on`
  );
}

function libraryReport(
  name: string,
  find: () => { readonly path: string; readonly version: number },
): LibraryReport {
  try {
    const { path, version } = find();
    return { name, found: `${cudaVersionText(version)} at ${path}`, remedy: null };
  } catch (error) {
    return { name, found: null, remedy: reasonOf(error) };
  }
}

function ncclReport(settings: CudaSettings, open: OpenLibrary): LibraryReport {
  const nccl = findNccl(settings, open);
  if (nccl !== null) {
    return { name: "NCCL", found: `${nccl.version} at ${nccl.path}`, remedy: null };
  }
  return { name: "NCCL", found: "none; only models on several GPUs need it", remedy: null };
}

/** The driver's release number, e.g. 580.159.03; null where the system does not report it. */
function driverRelease(): string | null {
  try {
    const text = readFileSync("/proc/driver/nvidia/version", "utf8");
    return /Kernel Module\s+(?:for \S+\s+)?([\d.]+)/.exec(text)?.[1] ?? null;
  } catch {
    return null; // Containers and other systems hide it; the CUDA version is enough.
  }
}

/**
 * Only a failure of the machine becomes a line of the report; any other error is a bug and is
 * thrown.
 */
function reasonOf(error: unknown): string {
  if (error instanceof EngineError) return error.message;
  throw error;
}
