/** Compares a measurement on a GPU with the GPU's limits, measured in the same run. */
import { EngineError } from "#base";
import { openCheckpoint, resolveModel } from "#checkpoint";
import { type GpuCeilings, measureGpuCeilings } from "#devices";
import { cudaFromEnvironment } from "../cuda-environment.ts";
import { hubFromEnvironment } from "../hub-environment.ts";
import { bundledModel } from "../package-root.ts";
import {
  type ModelShape,
  type RequestSizes,
  readShape,
  requestsLimitSeconds,
} from "./model-work.ts";

/** The limits, measured before the model is loaded: afterwards its pool has all memory. */
export interface GpuLimits {
  readonly gpu: string;
  readonly ceilings: GpuCeilings;
  /** Null for a model whose work cannot be computed. */
  readonly shape: ModelShape | null;
}

/** The flags that select the device. */
export interface DeviceWish {
  readonly device?: unknown;
  /** An explicit instruction set selects the CPU. */
  readonly isa?: unknown;
}

/**
 * The limits of a run on a GPU; null on other devices, which `auto` selects without a GPU. Throws
 * the errors of opening the device.
 */
export async function gpuLimits(
  model: string | undefined,
  { device = "auto", isa }: DeviceWish,
): Promise<GpuLimits | null> {
  const maybe = device === "auto" && isa === undefined;
  if (device !== "cuda" && !maybe) return null;
  const measured = await (maybe ? ceilingsIfThere() : measureGpuCeilings(cudaFromEnvironment()));
  if (measured === null) return null;
  const { gpu, ...ceilings } = measured;
  return { gpu, ceilings, shape: await shapeOf(model ?? bundledModel) };
}

async function ceilingsIfThere(): Promise<Awaited<ReturnType<typeof measureGpuCeilings>> | null> {
  try {
    return await measureGpuCeilings(cudaFromEnvironment());
  } catch (error) {
    // If there is more to report than a missing GPU, loading the model reports it.
    if (error instanceof EngineError && error.code === "DEVICE_UNAVAILABLE") return null;
    throw error;
  }
}

async function shapeOf(model: string): Promise<ModelShape | null> {
  const { cacheDir } = hubFromEnvironment();
  const path = await resolveModel(model, cacheDir === undefined ? {} : { cacheDir });
  const checkpoint = openCheckpoint(path, { weights: false });
  try {
    return readShape(checkpoint.config);
  } finally {
    checkpoint.close();
  }
}

/** The limits that `bench latency` and `bench throughput` report beside their times. */
export interface LimitReport {
  readonly gpu: string;
  readonly ceilings: GpuCeilings;
  /** The run's lower bound in seconds, and the share of it reached; null if unknown. */
  readonly limitSeconds: number | null;
  readonly ratio: number | null;
}

/** A run's seconds against the lower bound of its work with 16-bit weights and keys. */
export function againstLimits(
  { gpu, ceilings, shape }: GpuLimits,
  run: {
    readonly sizes: RequestSizes;
    readonly seconds: number;
    readonly weightFormat: string;
    readonly kvFormat: string;
  },
): LimitReport {
  const { copyGBs, bf16TFLOPs } = ceilings;
  const counted = run.weightFormat === "bf16" && ["bf16", "f16"].includes(run.kvFormat);
  if (shape === null || !counted || bf16TFLOPs === null) {
    return { gpu, ceilings, limitSeconds: null, ratio: null };
  }
  const limitSeconds = requestsLimitSeconds(shape, run.sizes, { copyGBs, bf16TFLOPs });
  return { gpu, ceilings, limitSeconds, ratio: limitSeconds / run.seconds };
}
