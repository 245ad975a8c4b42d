import { assert } from "#base";
import type { HostBlocks, KvBlockOptions, KvPoolOptions, KvScales } from "../device.ts";
import type { KvFormat, KvLayerIndex, KvPool } from "../device-data.ts";
import { checkedScales } from "../kv-scales.ts";
import { roundKv } from "./kv-rounding.ts";

const bytesPerFloat = 4;

/** Position of the key and the value of one token and head in a pool. */
export interface KvPlace extends KvLayerIndex {
  readonly slot: number;
  readonly kvHead: number;
}

/** Keys and values, in their order in a layer of a block. */
const parts = 2;

/**
 * Keys and values rounded to the format when written, and stored as f32: the format's rounding
 * without its bytes. Blocks are outermost, so that each is one range.
 */
export class HostKvPool implements KvPool {
  readonly format: KvFormat;
  readonly layers: number;
  readonly blocks: number;
  readonly blockTokens: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly bytesPerBlock: number;
  readonly layout: string;
  readonly #scales: KvScales | null;
  /** [N, L, 2, P, K, D]. */
  readonly #floats: Float32Array;

  constructor(options: KvPoolOptions) {
    this.format = options.format;
    this.layers = options.layers;
    this.blocks = options.blocks;
    this.blockTokens = options.blockTokens;
    this.kvHeads = options.kvHeads;
    this.headDim = options.headDim;
    this.#scales = checkedScales(options);
    this.bytesPerBlock = hostBytesPerBlock(options);
    this.layout =
      `reference f32 of ${options.format}, layers ${options.layers}, tokens ` +
      `${options.blockTokens}, heads ${options.kvHeads} of ${options.headDim}`;
    this.#floats = new Float32Array(this.blocks * this.#floatsPerBlock);
  }

  get #floatsPerBlock(): number {
    return this.bytesPerBlock / bytesPerFloat;
  }

  /** All layers of one block. Shares memory with the cache. */
  block(index: number): Float32Array {
    const start = index * this.#floatsPerBlock;
    return this.#floats.subarray(start, start + this.#floatsPerBlock);
  }

  /** [D]: a view of the key of one token and head. */
  key(layer: number, slot: number, kvHead: number): Float32Array {
    return this.#vector(layer * parts, slot, kvHead);
  }

  /** [D]: a view of the value of one token and head. */
  value(layer: number, slot: number, kvHead: number): Float32Array {
    return this.#vector(layer * parts + 1, slot, kvHead);
  }

  /** Stores the key and the value [D] of one token and head, rounded to the format. */
  store(place: KvPlace, key: Float32Array, value: Float32Array): void {
    const { layer, scaleLayer = layer, slot, kvHead } = place;
    const { key: keyScales, value: valueScales } = this.#scales ?? {};
    this.key(layer, slot, kvHead).set(roundKv(key, this.format, keyScales?.[scaleLayer]));
    this.value(layer, slot, kvHead).set(roundKv(value, this.format, valueScales?.[scaleLayer]));
  }

  /** `part`: 2 * layer for its keys, 1 more for its values. */
  #vector(part: number, slot: number, kvHead: number): Float32Array {
    const { blockTokens, kvHeads, headDim } = this;
    assert(
      part < this.layers * parts && slot >= 0 && slot < this.blocks * blockTokens,
      `Cannot reach slot ${slot} of layer ${Math.floor(part / parts)}: out of bounds`,
    );
    const block = Math.floor(slot / blockTokens);
    const token = part * blockTokens + (slot % blockTokens);
    const start = block * this.#floatsPerBlock + (token * kvHeads + kvHead) * headDim;
    return this.#floats.subarray(start, start + headDim);
  }
}

/** Blocks beside the cache; on this device the same kind of memory. */
export class HostKvBlocks implements HostBlocks {
  readonly blocks: number;
  readonly bytesPerBlock: number;
  readonly #floats: Float32Array;

  constructor(blocks: number, bytesPerBlock: number) {
    this.blocks = blocks;
    this.bytesPerBlock = bytesPerBlock;
    this.#floats = new Float32Array((blocks * bytesPerBlock) / bytesPerFloat);
  }

  /** One block. Shares memory with the others. */
  block(index: number): Float32Array {
    const size = this.bytesPerBlock / bytesPerFloat;
    return this.#floats.subarray(index * size, (index + 1) * size);
  }
}

/** Keys and values of one block as f32, whatever the format. */
export function hostBytesPerBlock(options: KvBlockOptions): number {
  const { layers, blockTokens, kvHeads, headDim } = options;
  return parts * layers * blockTokens * kvHeads * headDim * bytesPerFloat;
}

/** The cache behind a handle of this device. */
export function hostKvPool(handle: KvPool): HostKvPool {
  assert(handle instanceof HostKvPool, "Cannot use another device's KV cache on reference");
  return handle;
}

/** The host blocks behind a handle of this device. */
export function hostKvBlocks(handle: HostBlocks): HostKvBlocks {
  assert(handle instanceof HostKvBlocks, "Cannot use another device's blocks on reference");
  return handle;
}
