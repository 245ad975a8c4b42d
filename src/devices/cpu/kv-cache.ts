import { assert } from "#base";
import { bytesOf } from "#tensor";
import type { KvBlockOptions, KvCache, KvCacheOptions, KvFormat } from "../device.ts";
import { elementCode } from "./handles.ts";

/** Value rows are padded to this many elements; `kGroupTokens` in native/cpu/kv-cache.h. */
const valueMultiple = 16;

/** Keys and values in native memory, laid out as native/cpu/kv-cache.h says: blocks outermost. */
export class CpuKvCache implements KvCache {
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

  /** `address`: `kvBytesPerBlock(options) * options.blocks` bytes, zero-filled. */
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
    this.#elementCode = elementCode(options.format);
  }

  /** The fields of `KvLayerParams` for one layer. */
  layerParams(layer: number): readonly (bigint | number)[] {
    assert(layer >= 0 && layer < this.layers, `Cannot use layer ${layer}: ${this.layers} exist`);
    return [
      this.address,
      this.#elementCode,
      this.layers,
      this.blockTokens,
      this.kvHeads,
      this.headDim,
      layer,
    ];
  }
}

/** Keys and values of one block over all layers, contiguous. */
export function kvBytesPerBlock(options: KvBlockOptions): number {
  const { layers, kvHeads, blockTokens, headDim, format } = options;
  // bf16 keeps pairs of dimensions together.
  const keyColumns = format === "bf16" ? headDim + (headDim % 2) : headDim;
  const valueColumns = Math.ceil(headDim / valueMultiple) * valueMultiple;
  return layers * kvHeads * blockTokens * (keyColumns + valueColumns) * bytesOf(format);
}

/** The layouts are those of native/cpu/kv-cache.h, the same on every instruction set. */
function layoutOf(options: KvBlockOptions): string {
  const { format, layers, blockTokens, kvHeads, headDim } = options;
  return `cpu ${format}, layers ${layers}, tokens ${blockTokens}, heads ${kvHeads} of ${headDim}`;
}

/** The cache behind a handle. */
export function kvCacheOf(handle: KvCache): CpuKvCache {
  assert(handle instanceof CpuKvCache, "Cannot use another device's KV cache on cpu");
  return handle;
}
