import { EngineError, messageOf } from "#base";
import { CpuDevice } from "./cpu/cpu-device.ts";
import { availableIsas, type Isa, processorName } from "./cpu/isa.ts";
import { isBuilt } from "./cpu/library.ts";
import type { GpuCeilings } from "./cuda/ceilings.ts";
import { findDriver } from "./cuda/driver/driver.ts";
import type { CudaSettings } from "./cuda/driver/library-search.ts";
import { openSystemLibrary } from "./cuda/driver/native-library.ts";
import type { KernelProgress } from "./cuda/kernels/kernels.ts";
import type { Device, DeviceKind } from "./device.ts";
import { ReferenceDevice } from "./reference/reference-device.ts";

export interface OpenDeviceOptions {
  /** `auto`: the fastest device that works here. */
  readonly kind: "auto" | DeviceKind;
  /** Threads of the cpu device; one per physical core by default. */
  readonly threads?: number;
  /** Instruction set of the cpu device; the processor's best by default. */
  readonly isa?: Isa;
  /** Binds the cpu device's workers to cores; by default when it has one thread per core. */
  readonly pin?: boolean;
  /** Processes that share the machine's cores: the cpu device has as many fewer by default. */
  readonly sharedBy?: number;
  /** The cuda device's GPU, by its number among the visible ones; 0 by default. */
  readonly gpu?: number;
  /** Numbers beyond the visible GPUs begin again at 0. Default: false, they are refused. */
  readonly sharesGpus?: boolean;
  /** Paths of the cuda device's libraries and of its kernel cache. */
  readonly cuda?: CudaSettings;
  /** Receives each file of GPU kernels that is ready. */
  readonly onKernels?: (progress: KernelProgress) => void;
  /** Receives one line with the reason for a slower device under `auto`, and the remedy. */
  readonly warn?: (message: string) => void;
}

/**
 * Opens a device. The cuda device compiles its kernels at the first start, which takes seconds.
 * Throws DEVICE_UNAVAILABLE, with the remedy, when the requested device cannot run.
 */
export async function openDevice(options: OpenDeviceOptions): Promise<Device> {
  switch (options.kind) {
    case "reference":
      return new ReferenceDevice();
    case "cpu":
      return CpuDevice.open(options);
    case "cuda":
      return await openCuda(options);
    case "auto":
      return (await openCudaIfThere(options)) ?? openFastestProcessor(options);
  }
}

/** The device's code is imported here: most of this folder, which only a GPU needs. */
async function openCuda(options: OpenDeviceOptions): Promise<Device> {
  const { cuda = {}, gpu: ordinal = 0, sharesGpus = false, onKernels, warn } = options;
  const { CudaDevice } = await import("./cuda/cuda-device.ts");
  return CudaDevice.open({
    ...{ settings: cuda, ordinal, sharesGpus },
    ...(warn === undefined ? {} : { warn }),
    ...(onKernels === undefined ? {} : { onProgress: onKernels }),
  });
}

/** Null without a driver, and without a warning: such a machine has no GPU. */
async function openCudaIfThere(options: OpenDeviceOptions): Promise<Device | null> {
  // An instruction set applies to the CPU only.
  if (options.isa !== undefined) return null;
  if (findDriver(options.cuda ?? {}, openSystemLibrary) === null) return null;
  try {
    return await openCuda(options);
  } catch (error) {
    if (!(error instanceof EngineError) || error.code !== "DEVICE_UNAVAILABLE") throw error;
    options.warn?.(`${messageOf(error)}. Running without the GPU`);
    return null;
  }
}

function openFastestProcessor(options: OpenDeviceOptions): Device {
  try {
    return CpuDevice.open(options);
  } catch (error) {
    if (!(error instanceof EngineError) || error.code !== "DEVICE_UNAVAILABLE") throw error;
    // An explicitly requested instruction set is not replaced.
    if (options.isa !== undefined) throw error;
    const slow = "SLOW: running on the reference device, some 40 times slower";
    options.warn?.(`${messageOf(error)}. ${slow}`);
    return new ReferenceDevice();
  }
}

/** One device for `perigee doctor`: whether it runs here, and the missing parts if not. */
export interface DeviceReport {
  readonly kind: DeviceKind;
  readonly available: boolean;
  /** One line: the device, or its missing part. */
  readonly description: string;
  /** How to install the missing part; null when nothing is missing. */
  readonly remedy: string | null;
  /** More lines, where there are more details. */
  readonly details: readonly string[];
}

/** A report of each device on this machine. Keeps nothing open. `cuda`: paths of its libraries. */
export async function describeDevices(cuda: CudaSettings = {}): Promise<readonly DeviceReport[]> {
  return [describeCpu(), await describeCuda(cuda), describeReference()];
}

function describeCpu(): DeviceReport {
  const isas = availableIsas();
  const built = isas.filter(isBuilt);
  const sets = `instruction sets ${isas.join(", ") || "none"}; built ${built.join(", ") || "none"}`;
  try {
    const device = CpuDevice.open();
    const description = `${device.description} (${sets})`;
    device.dispose();
    return { kind: "cpu", available: true, description, remedy: null, details: [] };
  } catch (error) {
    const description = `cpu: ${processorName()} (${sets})`;
    return { kind: "cpu", available: false, description, remedy: messageOf(error), details: [] };
  }
}

async function describeCuda(settings: CudaSettings): Promise<DeviceReport> {
  const { examineCuda, reportLines } = await import("./cuda/cuda-report.ts");
  const { gpuText } = await import("./cuda/driver/gpu.ts");
  const report = examineCuda(settings);
  const base = { kind: "cuda", available: false, details: reportLines(report) } as const;
  if (!report.hasDriver) {
    const description = "cuda: no NVIDIA driver (libcuda.so.1) on this machine";
    return { ...base, description, remedy: "for a GPU: install the NVIDIA driver 550 or newer" };
  }
  if (report.problem !== null) {
    return { ...base, description: "cuda: something is missing", remedy: report.problem };
  }
  const [gpu] = report.gpus;
  const description = `cuda: ${gpu === undefined ? "a GPU" : gpuText(gpu)}`;
  return { ...base, available: true, description, remedy: null };
}

/** Opens a GPU, measures, and closes it. Throws DEVICE_UNAVAILABLE and OUT_OF_MEMORY. */
export async function measureGpuCeilings(
  settings: CudaSettings = {},
): Promise<GpuCeilings & { readonly gpu: string }> {
  const ceilings = await import("./cuda/ceilings.ts");
  return await ceilings.measureGpuCeilings(settings);
}

function describeReference(): DeviceReport {
  const description = "reference: plain TypeScript, slow, always there";
  return { kind: "reference", available: true, description, remedy: null, details: [] };
}
