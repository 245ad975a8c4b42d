import { assert } from "#base";
import type { KvBlockOptions, KvCache, KvCacheOptions, KvFormat, KvScales } from "../device.ts";
import { checkedScales, isScaled } from "../kv-scales.ts";
import { elementCode } from "./handles.ts";
import type { ParamKind } from "./kernel-params.ts";

const elementBytes: Readonly<Record<KvFormat, number>> = { f32: 4, f16: 2, bf16: 2, i8: 1, fp8: 1 };

/** A scale is a bf16; one for each token's key and one for its value. */
const scaleBytes = 2;

/** Layers begin at multiples of this. */
const layerAlignment = 16;

/** Fields of `KvLayer` in native/cuda/kv-cache.h, as `CudaKvCache.layerParams` gives them. */
export const KV_LAYER: readonly ParamKind[] = [
  ...(["pointer", "i64", "i32", "i32", "i32", "i32", "f32", "f32"] as const),
];

/** Keys and values in device memory, laid out as native/cuda/kv-cache.h says: blocks outermost. */
export class CudaKvCache implements KvCache {
  readonly format: KvFormat;
  readonly layers: number;
  readonly blocks: number;
  readonly blockTokens: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly bytesPerBlock: number;
  readonly layout: string;
  readonly address: bigint;
  readonly #bytesPerLayer: number;
  readonly #elementCode: number;
  readonly #scales: KvScales | null;

  /** `address`: `kvBytesPerBlock(options) * options.blocks` bytes. */
  constructor(options: KvCacheOptions, address: bigint) {
    this.format = options.format;
    this.layers = options.layers;
    this.blocks = options.blocks;
    this.blockTokens = options.blockTokens;
    this.kvHeads = options.kvHeads;
    this.headDim = options.headDim;
    this.bytesPerBlock = kvBytesPerBlock(options);
    this.layout = layoutOf(options);
    this.address = address;
    this.#bytesPerLayer = kvBytesPerLayer(options);
    this.#elementCode = elementCode(options.format);
    this.#scales = checkedScales(options);
  }

  /** The fields of `KvLayer` for one layer, in the order of `KV_LAYER`. */
  layerParams(layer: number): readonly (bigint | number)[] {
    assert(layer >= 0 && layer < this.layers, `Cannot use layer ${layer}: ${this.layers} exist`);
    return [
      this.address + BigInt(layer * this.#bytesPerLayer),
      this.bytesPerBlock,
      this.#elementCode,
      this.blockTokens,
      this.kvHeads,
      this.headDim,
      this.#scales?.key[layer] ?? 0,
      this.#scales?.value[layer] ?? 0,
    ];
  }
}

/** Keys, values and scales of one block over all layers, contiguous. */
export function kvBytesPerBlock(options: KvBlockOptions): number {
  return options.layers * kvBytesPerLayer(options);
}

function kvBytesPerLayer(options: KvBlockOptions): number {
  const { kvHeads, blockTokens, headDim, format } = options;
  const rows = kvHeads * blockTokens;
  const ownScales = isScaled(format) && options.scales === undefined;
  const bytes = 2 * rows * (headDim * elementBytes[format] + (ownScales ? scaleBytes : 0));
  return Math.ceil(bytes / layerAlignment) * layerAlignment;
}

function layoutOf(options: KvBlockOptions): string {
  const { format, layers, blockTokens, kvHeads, headDim } = options;
  const scales = options.scales === undefined ? "" : " calibrated";
  const heads = `heads ${kvHeads} of ${headDim}`;
  return `cuda ${format}${scales}, layers ${layers}, tokens ${blockTokens}, ${heads}`;
}

/** The cache behind a handle. */
export function kvCacheOf(handle: KvCache): CudaKvCache {
  assert(handle instanceof CudaKvCache, "Cannot use another device's KV cache on cuda");
  return handle;
}
