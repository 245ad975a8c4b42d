import type { CudaDriver } from "#devices/cuda/driver";
import {
  type Kernel,
  KernelParams,
  PACKED_ROWS,
  TENSOR_MAP,
  tensorMapFields,
} from "#devices/cuda/kernels";
import { activationOf, type CudaKvPool, kvPoolOf } from "#devices/cuda/memory";
import type { PagedAttentionInput } from "../../ops.ts";
import { ATTENTION_INPUT, attentionFields } from "./attention-fields.ts";
import type { CudaContext } from "./context.ts";

/** Whether Hopper's kernel is used at all; without it the general kernel does its work. */
const isEnabled = true;

/** `kRows`, `kKeys`, `kThreads`, `kPanelColumns` and `kSwizzleRows` of native/cuda. */
const tileRows = 128;
const tileKeys = 128;
const threads = 384;
const panelColumns = 64;
const swizzleRows = 8;

/** Fewest rows of one kv head that fill a tile well enough. */
const rowsMin = 65;
const blockTokensMin = swizzleRows;
/** Largest group of heads: a row's token is computed by a multiplication (`PrefillJob`). */
const groupMax = 512;
/**
 * Shared memory of a block on this capability: all of it, since no two blocks run on one
 * multiprocessor.
 */
const sharedBytes = 227 * 1024;

/**
 * `AttendPrefillWgmmaParams` of native/cuda/attend-prefill-wgmma-job.h. A struct with a tensor map
 * ends at a multiple of 64 bytes, and the driver reads all of it: hence the tail.
 */
const params = new KernelParams([...TENSOR_MAP, ...PACKED_ROWS, "pointer", ...ATTENTION_INPUT], 16);

/** Tensor maps of a cache by layer. */
const mapsOfCaches = new WeakMap<CudaKvPool, Map<number, readonly bigint[]>>();

/**
 * Whether Hopper's kernel supports this input, which the general prefill kernel supports as well.
 */
export function canAttendPrefillWgmma(context: CudaContext, input: PagedAttentionInput): boolean {
  const { batch, heads, sinks } = input;
  const { major, minor, sharedBytesMax } = context.gpu;
  // Its instructions exist for this capability alone.
  if (!isEnabled || major !== 9 || minor !== 0) return false;
  if (sinks !== undefined || batch.treeMask !== undefined) return false;
  const cache = kvPoolOf(input.cache);
  const group = heads / cache.kvHeads;
  if (batch.queryLengthMax * group < rowsMin || group > groupMax) return false;
  return isCacheFit(cache) && sharedBytes <= sharedBytesMax;
}

/** As `attendPrefill`; the caller checked `canAttendPrefillWgmma`. */
export function attendPrefillWgmma(
  context: CudaContext,
  input: PagedAttentionInput,
  decodeRows: number,
): void {
  const { count, heads, batch } = input;
  const cache = kvPoolOf(input.cache);
  const kernel = kernelOf(context, cache);
  kernel.allowSharedBytes(sharedBytes);
  const out = activationOf(input.out, count, heads * cache.headDim);
  const map = mapOf(context.launcher.driver, cache, input.layer);
  const fields = attentionFields(input, decodeRows);
  params.fill(...map, ...out.params, context.arrivals, ...fields);
  // No more blocks than run at once; a job is a tile of one kv head, and there are at most this
  // many.
  const tiles = Math.floor((count * (heads / cache.kvHeads)) / tileRows) + batch.sequences;
  const blocks = Math.min(context.gpu.multiprocessors, tiles * cache.kvHeads);
  context.launcher.launch(kernel, { grid: [blocks], threads, sharedBytes }, params);
}

function isCacheFit({ format, headDim, blockTokens }: CudaKvPool): boolean {
  if (format !== "bf16" && format !== "f16") return false;
  const isSizeFit = headDim === panelColumns || headDim === 2 * panelColumns;
  return isSizeFit && blockTokens >= blockTokensMin && tileKeys % blockTokens === 0;
}

function kernelOf({ kernels }: CudaContext, { format, headDim }: CudaKvPool): Kernel {
  const element = format === "f16" ? "f16" : "bf16";
  return kernels[`attend_prefill_wgmma_${element}_${headDim === panelColumns ? 64 : 128}`];
}

/**
 * A layer's tensor map, with tiles laid out as in shared memory (native/cuda/panels.h): eight rows
 * of every panel, and all such groups of the pool in order. A box is the keys or the values of one
 * kv head in a block.
 */
function mapOf(driver: CudaDriver, cache: CudaKvPool, layer: number): readonly bigint[] {
  const maps = mapsOfCaches.get(cache) ?? new Map<number, readonly bigint[]>();
  mapsOfCaches.set(cache, maps);
  const known = maps.get(layer);
  if (known !== undefined) return known;
  const { headDim, blockTokens, kvHeads, blocks, bytesPerBlock } = cache;
  const rowBytes = 2 * headDim;
  const groupBytes = swizzleRows * rowBytes;
  const layerBytes = 2 * kvHeads * blockTokens * rowBytes;
  const groups = ((blocks - 1) * bytesPerBlock + layerBytes) / groupBytes;
  const panels = headDim / panelColumns;
  const map = tensorMapFields(driver, {
    address: cache.address + BigInt(layer * layerBytes),
    sizes: [panelColumns, swizzleRows, panels, groups, 1],
    strides: [rowBytes, 2 * panelColumns, groupBytes, bytesPerBlock],
    box: [panelColumns, swizzleRows, panels, blockTokens / swizzleRows, 1],
  });
  maps.set(layer, map);
  return map;
}
