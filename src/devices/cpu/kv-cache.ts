import { assert } from "#base";
import type { KvCache, KvCacheOptions, KvFormat } from "../device.ts";

/** Codes of KV formats; the same order as `Element` in native/cpu/params.h. */
const KV_FORMATS: readonly KvFormat[] = ["f32", "f16", "bf16"];

/** Value rows are padded to this many elements, so that every vector load of a row is whole. */
const VALUE_LANES = 16;

/** A KV pool in native memory; native/cpu/kv-cache.h says where a block's keys and values lie. */
export class CpuKvCache implements KvCache {
  readonly format: KvFormat;
  readonly layers: number;
  readonly blocks: number;
  readonly blockTokens: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly bytesPerBlock: number;
  readonly address: bigint;
  readonly formatCode: number;

  constructor(options: KvCacheOptions, address: bigint) {
    this.format = options.format;
    this.layers = options.layers;
    this.blocks = options.blocks;
    this.blockTokens = options.blockTokens;
    this.kvHeads = options.kvHeads;
    this.headDim = options.headDim;
    this.bytesPerBlock = kvBytesPerBlock(options);
    this.address = address;
    this.formatCode = KV_FORMATS.indexOf(options.format);
  }
}

/** Bytes of one block over all layers, padding included. */
export function kvBytesPerBlock(options: Omit<KvCacheOptions, "blocks">): number {
  const valueDim = Math.ceil(options.headDim / VALUE_LANES) * VALUE_LANES;
  const elements =
    options.layers * options.kvHeads * options.blockTokens * (options.headDim + valueDim);
  return elements * (options.format === "f32" ? 4 : 2);
}

/** The KV pool behind a handle. */
export function kvCacheOf(handle: KvCache): CpuKvCache {
  assert(handle instanceof CpuKvCache, "Cannot use another device's KV cache on cpu");
  return handle;
}
