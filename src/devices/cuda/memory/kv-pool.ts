import { assert } from "#base";
import type { ParamKind } from "#devices/cuda/kernels";
import type { KvBlockOptions, KvPoolOptions, KvScales } from "../../device.ts";
import type { KvFormat, KvLayerIndex, KvPool } from "../../device-data.ts";
import { checkedScales, isScaled, layerScales } from "../../kv-scales.ts";
import { elementCode } from "./handles.ts";

const elementBytes: Readonly<Record<KvFormat, number>> = { f32: 4, f16: 2, bf16: 2, i8: 1, fp8: 1 };

/** A scale is a bf16; one for each token's key and one for its value. */
const scaleBytes = 2;

/** Keys, values and the parts of heads begin at multiples of this: a thread loads 16 bytes. */
const rowAlignment = 16;

/** Fields of `KvLayer` in native/cuda/kv-pool.h, as `CudaKvPool.layerParams` gives them. */
export const KV_LAYER: readonly ParamKind[] = [
  ...(["pointer", "i64", "i64"] as const),
  ...(["i32", "i32", "i32", "i32", "i32", "i32", "f32", "f32"] as const),
];

/** Keys and values in device memory, in the layout of native/cuda/kv-pool.h: blocks outermost. */
export class CudaKvPool implements KvPool {
  readonly format: KvFormat;
  readonly layers: number;
  readonly blocks: number;
  readonly blockTokens: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly bytesPerBlock: number;
  readonly layout: string;
  readonly address: bigint;
  readonly #headBytes: number;
  readonly #elementCode: number;
  readonly #scales: KvScales | null;

  /** `address`: `kvBytesPerBlock(options) * options.blocks` bytes. */
  constructor(options: KvPoolOptions, address: bigint) {
    this.format = options.format;
    this.layers = options.layers;
    this.blocks = options.blocks;
    this.blockTokens = options.blockTokens;
    this.kvHeads = options.kvHeads;
    this.headDim = options.headDim;
    this.bytesPerBlock = kvBytesPerBlock(options);
    this.layout = layoutOf(options);
    this.address = address;
    this.#headBytes = headBytesOf(options);
    this.#elementCode = elementCode(options.format);
    this.#scales = checkedScales(options);
  }

  /** The fields of `KvLayer` for one layer, in the order of `KV_LAYER`. */
  layerParams({ layer, scaleLayer = layer }: KvLayerIndex): readonly (bigint | number)[] {
    assert(layer >= 0 && layer < this.layers, `Cannot use layer ${layer}: ${this.layers} exist`);
    return [
      this.address + BigInt(layer * this.kvHeads * this.#headBytes),
      this.bytesPerBlock,
      this.#headBytes,
      this.#elementCode,
      this.blockTokens,
      this.kvHeads,
      this.headDim,
      kvRowBytes(this),
      isScaled(this.format) && this.#scales === null ? 1 : 0,
      ...layerScales(this.#scales, scaleLayer, 1),
    ];
  }
}

/** Keys, values and scales of one block over all layers, contiguous. */
export function kvBytesPerBlock(options: KvBlockOptions): number {
  return options.layers * options.kvHeads * headBytesOf(options);
}

/** Bytes of one kv head in a layer of a block: keys, values, scales. */
function headBytesOf(options: KvBlockOptions): number {
  const ownScales = isScaled(options.format) && options.scales === undefined;
  const perToken = 2 * (kvRowBytes(options) + (ownScales ? scaleBytes : 0));
  return padded(options.blockTokens * perToken);
}

/** Bytes from one key, or value, of a head to the next. */
function kvRowBytes({ headDim, format }: Pick<KvBlockOptions, "headDim" | "format">): number {
  return padded(headDim * elementBytes[format]);
}

function padded(bytes: number): number {
  return Math.ceil(bytes / rowAlignment) * rowAlignment;
}

function layoutOf(options: KvBlockOptions): string {
  const { format, layers, blockTokens, kvHeads, headDim } = options;
  const scales = options.scales === undefined ? "" : " calibrated";
  const heads = `heads ${kvHeads} of ${headDim}`;
  return `cuda ${format}${scales}, layers ${layers}, tokens ${blockTokens}, ${heads}`;
}

/** The cache behind a handle. */
export function kvPoolOf(handle: KvPool): CudaKvPool {
  assert(handle instanceof CudaKvPool, "Cannot use another device's KV cache on cuda");
  return handle;
}
