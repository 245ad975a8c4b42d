import { assert } from "#base";
import { bf16FromF32, f16FromF32, f32FromBf16, f32FromF16 } from "#tensor";
import type { KvCache, KvCacheOptions, KvFormat } from "../device.ts";

const rounders: Readonly<Record<KvFormat, (value: number) => number>> = {
  f32: (value) => value,
  f16: (value) => f32FromF16(f16FromF32(value)),
  bf16: (value) => f32FromBf16(bf16FromF32(value)),
};

const bytesPerFloat = 4;

/** Keys and values rounded to the format when written, and kept as the f32 they stand for. */
export class HostKvCache implements KvCache {
  readonly format: KvFormat;
  readonly layers: number;
  readonly blocks: number;
  readonly blockTokens: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Per layer: [N * P slots, K, D]. */
  readonly #keys: readonly Float32Array[];
  readonly #values: readonly Float32Array[];

  constructor(options: KvCacheOptions) {
    this.format = options.format;
    this.layers = options.layers;
    this.blocks = options.blocks;
    this.blockTokens = options.blockTokens;
    this.kvHeads = options.kvHeads;
    this.headDim = options.headDim;
    const floats = this.blocks * this.#floatsPerBlock;
    this.#keys = Array.from({ length: this.layers }, () => new Float32Array(floats));
    this.#values = Array.from({ length: this.layers }, () => new Float32Array(floats));
  }

  /** Of one layer's keys, or of its values. */
  get #floatsPerBlock(): number {
    return this.blockTokens * this.kvHeads * this.headDim;
  }

  get bytesPerBlock(): number {
    return 2 * this.layers * this.#floatsPerBlock * bytesPerFloat;
  }

  /** [D]: a view of the key of one token and head. */
  key(layer: number, slot: number, kvHead: number): Float32Array {
    return this.#vector(this.#keys, layer, slot, kvHead);
  }

  /** [D]: a view of the value of one token and head. */
  value(layer: number, slot: number, kvHead: number): Float32Array {
    return this.#vector(this.#values, layer, slot, kvHead);
  }

  /** `values` as the format keeps them. */
  round(values: Float32Array): Float32Array {
    return values.map(rounders[this.format]);
  }

  #vector(
    perLayer: readonly Float32Array[],
    layer: number,
    slot: number,
    kvHead: number,
  ): Float32Array {
    const floats = perLayer[layer];
    assert(
      floats !== undefined && slot >= 0 && slot < this.blocks * this.blockTokens,
      `Cannot reach slot ${slot} of layer ${layer}: out of bounds`,
    );
    const start = (slot * this.kvHeads + kvHead) * this.headDim;
    return floats.subarray(start, start + this.headDim);
  }
}

/** The cache behind a handle of this device. */
export function hostKvCache(handle: KvCache): HostKvCache {
  assert(handle instanceof HostKvCache, "Cannot use another device's KV cache on reference");
  return handle;
}
