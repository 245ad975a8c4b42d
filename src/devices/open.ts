import { EngineError, messageOf } from "#base";
import { CpuDevice } from "./cpu/cpu-device.ts";
import { availableIsas, type Isa, processorName } from "./cpu/isa.ts";
import { isBuilt } from "./cpu/library.ts";
import { examineCuda, reportLines } from "./cuda/cuda-report.ts";
import type { CudaSettings } from "./cuda/library-search.ts";
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
  /** Told in one line why `auto` had to take the slow reference device, and the remedy. */
  readonly warn?: (message: string) => void;
}

/** Throws DEVICE_UNAVAILABLE, with the remedy, when the device that was asked for cannot run. */
export function openDevice(options: OpenDeviceOptions): Device {
  switch (options.kind) {
    case "reference":
      return new ReferenceDevice();
    case "cpu":
      return CpuDevice.open(options);
    case "cuda":
      throw new EngineError(
        "DEVICE_UNAVAILABLE",
        "Cannot open the cuda device: this version runs on cpu and reference; use --device cpu",
        { param: "device" },
      );
    case "auto":
      return openFastest(options);
  }
}

function openFastest(options: OpenDeviceOptions): Device {
  try {
    return CpuDevice.open(options);
  } catch (error) {
    if (!(error instanceof EngineError) || error.code !== "DEVICE_UNAVAILABLE") throw error;
    // An instruction set that was asked for by name is not ours to replace.
    if (options.isa !== undefined) throw error;
    options.warn?.(`${messageOf(error)}. Running on the reference device, which is slow`);
    return new ReferenceDevice();
  }
}

/** One device for `perigee doctor`: whether it runs here, and what is missing if not. */
export interface DeviceReport {
  readonly kind: DeviceKind;
  readonly available: boolean;
  /** One line: what was found, or what is missing. */
  readonly description: string;
  /** How to get what is missing; null when nothing is. */
  readonly remedy: string | null;
  /** More lines, where there is more to tell. */
  readonly details: readonly string[];
}

/**
 * What each device found on this machine. Opens nothing for longer than the look takes. `cuda`:
 * where its libraries may be.
 */
export function describeDevices(cuda: CudaSettings = {}): readonly DeviceReport[] {
  return [describeCpu(), describeCuda(cuda), describeReference()];
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

function describeCuda(settings: CudaSettings): DeviceReport {
  const report = examineCuda(settings);
  const base = { kind: "cuda", available: false, details: reportLines(report) } as const;
  if (!report.hasDriver) {
    const description = "cuda: no NVIDIA driver (libcuda.so.1) on this machine";
    return { ...base, description, remedy: "for a GPU: install the NVIDIA driver 550 or newer" };
  }
  if (report.problem !== null) {
    return { ...base, description: "cuda: something is missing", remedy: report.problem };
  }
  const description = "cuda: a GPU and its libraries are there, but no model runs on them yet";
  return { ...base, description, remedy: "use --device cpu" };
}

function describeReference(): DeviceReport {
  const description = "reference: plain TypeScript, slow, always there";
  return { kind: "reference", available: true, description, remedy: null, details: [] };
}
