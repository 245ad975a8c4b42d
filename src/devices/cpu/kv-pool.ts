import { assert } from "#base";
import type { KvBlockOptions, KvPoolOptions, KvScales } from "../device.ts";
import type { KvFormat, KvLayerIndex, KvPool } from "../device-data.ts";
import { checkedScales, isScaled, layerScales } from "../kv-scales.ts";
import { elementCode } from "./handles.ts";

/** Value rows are padded to this many elements; `kGroupTokens` in native/cpu/kv-pool.h. */
const valueMultiple = 16;

const elementBytes: Readonly<Record<KvFormat, number>> = { f32: 4, f16: 2, bf16: 2, i8: 1, fp8: 1 };

/** A scale is a bf16; one for each token's key and one for its value. */
const scaleBytes = 2;

/** Keys and values in native memory, in the layout of native/cpu/kv-pool.h: blocks outermost. */
export class CpuKvPool implements KvPool {
  readonly format: KvFormat;
  readonly layers: number;
  readonly blocks: number;
  readonly blockTokens: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly bytesPerBlock: number;
  readonly layout: string;
  readonly address: bigint;
  readonly #elementCode: number;
  readonly #scales: KvScales | null;

  /** `address`: `kvBytesPerBlock(options) * options.blocks` bytes, zero-filled. */
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
    this.#elementCode = elementCode(options.format);
    this.#scales = checkedScales(options);
  }

  /** The fields of `KvLayerParams` for one layer. */
  layerParams({ layer, scaleLayer = layer }: KvLayerIndex): readonly (bigint | number)[] {
    assert(layer >= 0 && layer < this.layers, `Cannot use layer ${layer}: ${this.layers} exist`);
    return [
      this.address,
      this.#elementCode,
      this.layers,
      this.blockTokens,
      this.kvHeads,
      this.headDim,
      layer,
      ...layerScales(this.#scales, scaleLayer, 0),
    ];
  }
}

/** Keys and values of one block over all layers, contiguous. */
export function kvBytesPerBlock(options: KvBlockOptions): number {
  const { layers, kvHeads, blockTokens, headDim, format } = options;
  // bf16 and i8 keep pairs of dimensions together.
  const paired = format === "bf16" || format === "i8";
  const keyColumns = paired ? headDim + (headDim % 2) : headDim;
  const valueColumns = Math.ceil(headDim / valueMultiple) * valueMultiple;
  const keyBytes = blockTokens * keyColumns * elementBytes[format];
  const valueBytes = blockTokens * valueColumns * elementBytes[format];
  const ownScales = isScaled(format) && options.scales === undefined;
  const scales = ownScales ? 2 * blockTokens * scaleBytes : 0;
  // Scales lie at even addresses.
  return layers * kvHeads * (keyBytes + (keyBytes % 2) + valueBytes + scales);
}

/** The layouts are those of native/cpu/kv-pool.h, the same on every instruction set. */
function layoutOf(options: KvBlockOptions): string {
  const { format, layers, blockTokens, kvHeads, headDim } = options;
  const scales = options.scales === undefined ? "" : " calibrated";
  const heads = `heads ${kvHeads} of ${headDim}`;
  return `cpu ${format}${scales}, layers ${layers}, tokens ${blockTokens}, ${heads}`;
}

/** The cache behind a handle. */
export function kvPoolOf(handle: KvPool): CpuKvPool {
  assert(handle instanceof CpuKvPool, "Cannot use another device's KV cache on cpu");
  return handle;
}
