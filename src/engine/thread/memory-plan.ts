import { EngineError } from "#base";
import type { Checkpoint } from "#checkpoint";
import type { Device, KvFormat, WeightFormat } from "#devices";
import type { EngineOptions } from "#engine/protocol";
import { tooLarge, tooSmall } from "#engine/tiers";
import { elementCount } from "#tensor";

/** Default size of a pool in main memory: hundreds of short chats. */
const POOL_BYTES_DEFAULT = 2 ** 30;
/** Largest share of the free memory for the default. */
const POOL_SHARE = 0.3;
/** Files with so large a part in quantised blocks are run in them. */
const PACKED_SHARE = 0.5;
/** Files with at least so many bytes per parameter are float32. */
const FLOAT32_BYTES_MIN = 3.5;

/** One block of the pool in the device's format. */
export interface BlockSize {
  readonly bytes: number;
  readonly blockTokens: number;
  /** Groups of layers: the same positions have a block in each. */
  readonly groups: number;
}

/** Format of weights: as requested, else by the file's precision. */
export function weightFormatFor(
  options: EngineOptions,
  checkpoint: Checkpoint,
  device: Device,
): WeightFormat {
  const format = wantedFormat(options, checkpoint, device);
  if (device.weightFormats.includes(format)) return format;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot load the model: ${device.description} keeps weights in ` +
      `${device.weightFormats.join(", ")}, wanted ${format}`,
    { param: "dtype" },
  );
}

function wantedFormat(
  options: EngineOptions,
  checkpoint: Checkpoint,
  device: Device,
): WeightFormat {
  const hasBlocks = device.weightFormats.includes("q8");
  if (options.quantization === "int8") return hasBlocks ? "q8" : "i8";
  if (options.dtype === "float32") return "f32";
  // Tensor cores multiply bf16 sixteen times as fast as f32.
  if (options.dtype === "bfloat16" || device.accelerator) return "bf16";
  if (options.randomWeights) return "bf16";
  let parameters = 0;
  let packed = 0;
  for (const tensor of checkpoint.tensors.values()) {
    const elements = elementCount(tensor.shape);
    parameters += elements;
    if (tensor.packed !== undefined) packed += elements;
  }
  // Norms and biases are floats in every file.
  if (hasBlocks && options.dtype === "auto" && packed > PACKED_SHARE * parameters) return "q8";
  return checkpoint.totalBytes >= parameters * FLOAT32_BYTES_MIN ? "f32" : "bf16";
}

/** Format of keys and values: as requested, else as exact as the weights. */
export function kvFormatFor(options: EngineOptions, weights: WeightFormat): KvFormat {
  switch (options.kvCache.dtype) {
    case "float32":
      return "f32";
    case "float16":
      return "f16";
    case "bfloat16":
      return "bf16";
    case "int8":
      return "i8";
    case "fp8":
      return "fp8";
    case "auto":
      return weights === "f32" ? "f32" : "bf16";
  }
}

/** Limits of a pool: the device's memory, and the context that bounds its useful size. */
export interface PoolRoom {
  readonly contextTokensMax: number;
  /** Memory of the device: all of it, and what is free. */
  readonly totalBytes: number;
  readonly availableBytes: number;
  /** The memory is an accelerator's, with no other use. */
  readonly accelerator: boolean;
}

/** GPU memory left free beside the pool, for graphs of steps, which are captured later. */
export const GRAPH_BYTES = 2 ** 28;

/**
 * Blocks of the pool. Throws INVALID_ARGUMENT where `poolBytes` exceeds the free memory or is less
 * than one block, and OUT_OF_MEMORY where there is no memory for one.
 */
export function poolBlocks(block: BlockSize, options: EngineOptions, machine: PoolRoom): number {
  const { availableBytes, contextTokensMax } = machine;
  const asked = options.kvCache.poolBytes;
  if (asked !== null && asked < block.bytes) throw tooSmall("poolBytes", asked, block.bytes);
  if (asked !== null && asked > availableBytes) throw tooLarge("poolBytes", asked, availableBytes);
  const blocksPerSequence = block.groups * Math.ceil(contextTokensMax / block.blockTokens);
  // More blocks than all running sequences at full length only retain prefixes for longer.
  const usefulBlocks = blocksPerSequence * options.scheduler.runningSequencesMax;
  const bytes = asked ?? defaultPoolBytes(options, machine);
  const blocks = Math.floor(bytes / block.bytes);
  if (blocks < 1) throw noMemory(block.bytes, options, machine);
  return asked === null ? Math.min(blocks, usefulBlocks) : blocks;
}

/** A GPU's memory is used up to the requested share, use by other processes included. */
function defaultPoolBytes(options: EngineOptions, machine: PoolRoom): number {
  const { accelerator, totalBytes, availableBytes } = machine;
  if (!accelerator) return Math.min(POOL_BYTES_DEFAULT, availableBytes * POOL_SHARE);
  const usedBytes = totalBytes - availableBytes;
  const wanted = totalBytes * options.gpuMemoryUtilization - usedBytes;
  return Math.max(0, Math.min(wanted, availableBytes - GRAPH_BYTES));
}

function noMemory(
  bytesPerBlock: number,
  options: EngineOptions,
  { accelerator, totalBytes, availableBytes }: PoolRoom,
): EngineError {
  const place = accelerator
    ? `gpuMemoryUtilization ${options.gpuMemoryUtilization} lets ` +
      `${Math.floor(totalBytes * options.gpuMemoryUtilization)} of the GPU's ${totalBytes} ` +
      `bytes be used, ${totalBytes - availableBytes} are in use`
    : `the default share of the free memory is ${Math.floor(availableBytes * POOL_SHARE)}; ` +
      "free memory, set poolBytes or lower blockTokens";
  return new EngineError(
    "OUT_OF_MEMORY",
    `Cannot allocate the KV pool: one block takes ${bytesPerBlock} bytes, ${place}`,
    { param: "poolBytes" },
  );
}
