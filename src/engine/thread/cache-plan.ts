import type { Checkpoint } from "#checkpoint";
import type { Device, KvBlockOptions, KvPoolOptions, KvScales, WeightFormat } from "#devices";
import { type ScratchSize, scratchBlocks } from "#engine/forward";
import type { EngineOptions } from "#engine/protocol";
import type { CacheWindow } from "#kvcache";
import {
  type DecoderSpec,
  type KvLayout,
  type KvShape,
  kvLayout,
  kvScales,
  type LayerRange,
  partLayout,
  type Streaming,
} from "#models";
import { modelContextTokens, servedTokens, streamingOf } from "./attention-window.ts";
import { kvFormatFor, poolBlocks } from "./memory-plan.ts";

/** A decoder before its cache is allocated. */
export interface CachePlanParts {
  readonly device: Device;
  readonly options: EngineOptions;
  readonly checkpoint: Checkpoint;
  readonly spec: DecoderSpec;
  /** Format of the weights. */
  readonly format: WeightFormat;
  /** The layers that are here, of all that `spec` has; null: all. */
  readonly range: LayerRange | null;
  /** A drafter's keys and values, which lie beside the model's; null: it has none. */
  readonly drafter: PlannedDrafter | null;
}

/** A drafter with keys and values of its own. */
export interface PlannedDrafter extends Omit<ScratchSize, "blockTokens"> {
  readonly kv: KvShape;
  /** Most chains behind a sequence. */
  readonly widthMax: number;
}

/** Properties of a decoder's cache, before its memory is allocated. */
export class CachePlan {
  readonly block: KvBlockOptions;
  /** Which layers share blocks. */
  readonly layout: KvLayout;
  /** The same of all layers, of which some may be elsewhere. */
  readonly whole: { readonly block: KvBlockOptions; readonly layout: KvLayout };
  /** A drafter's part of each block; null: there is none. */
  readonly drafterBlock: KvBlockOptions | null;
  readonly #parts: CachePlanParts;
  /** What other stages have room for. */
  #blocksMax = Number.POSITIVE_INFINITY;

  /** Throws CHECKPOINT_INVALID where the checkpoint's scales cannot be used. */
  constructor(parts: CachePlanParts) {
    const { options, checkpoint, spec, range } = parts;
    const format = kvFormatFor(options, parts.format);
    const { kvHeads, headDim } = spec;
    const layout = kvLayout(spec, {
      streaming: streamingOf(options),
      servedTokens: servedTokens(options, spec),
    });
    const scales = kvScales(checkpoint, { layers: spec.layers.length, format });
    const { blockTokens } = options.kvCache;
    const shape = { blockTokens, kvHeads, headDim, format };
    const blockOf = ({ layersPerBlock: layers }: KvLayout, scales: KvScales | null) => ({
      ...{ layers, ...shape },
      ...(scales !== null && { scales }),
    });
    this.whole = { layout, block: blockOf(layout, scales) };
    this.layout = range === null ? layout : partLayout(layout, range);
    this.block = blockOf(this.layout, scales && scalesOf(scales, range));
    // In the format of the model's, with scales of each token where it has 8 bits.
    this.drafterBlock = parts.drafter && { ...parts.drafter.kv, blockTokens, format };
    this.#parts = parts;
  }

  /** A drafter's pool beside one of `blocks` blocks, with its scratch; null: there is none. */
  drafterPool(blocks: number): KvPoolOptions | null {
    if (this.drafterBlock === null) return null;
    return { ...this.drafterBlock, blocks: blocks + this.#scratchBlocks };
  }

  /** What the blocks of the drafter's keys and values keep of a sequence: those of group 0. */
  get drafterStreaming(): Streaming | null {
    const window = this.layout.groups[0]?.window ?? null;
    return window && { window: window.tokens, sinkTokens: window.sinkTokens };
  }

  /** Blocks of drafts under way, which belong to no sequence. */
  get #scratchBlocks(): number {
    const { drafter, options } = this.#parts;
    if (drafter === null) return 0;
    const { blockTokens } = this.block;
    const each = scratchBlocks({ ...drafter, blockTokens });
    return each * drafter.widthMax * options.scheduler.runningSequencesMax;
  }

  /** By group of layers: the window that its layers see; null: all positions. */
  get windows(): readonly (CacheWindow | null)[] {
    return this.layout.groups.map(({ window }) => window);
  }

  /** The share of each block, and of the memory that is asked for, that is here. */
  get share(): number {
    const { device } = this.#parts;
    return device.kvBytesPerBlock(this.block) / device.kvBytesPerBlock(this.whole.block);
  }

  /** From now on there are no more blocks than this. */
  limit(blocks: number): void {
    this.#blocksMax = Math.min(this.#blocksMax, blocks);
  }

  /** Blocks that the pool would get now: fewer when more device memory is in use. */
  blocks(): number {
    const { device, spec } = this.#parts;
    const options = ofShare(this.#parts.options, this.share);
    const { blockTokens } = this.block;
    const groups = this.layout.groups.length;
    const drafterBytes = this.drafterBlock ? device.kvBytesPerBlock(this.drafterBlock) : 0;
    const bytes = device.kvBytesPerBlock(this.block) + drafterBytes;
    const { totalBytes, availableBytes } = device.memory();
    const scratchBytes = drafterBytes * this.#scratchBlocks;
    const blocks = poolBlocks({ bytes, blockTokens, groups }, options, {
      contextTokensMax: options.scheduler.contextTokensMax ?? spec.contextTokensMax,
      totalBytes,
      availableBytes: Math.max(0, availableBytes - scratchBytes),
      accelerator: device.accelerator,
    });
    return Math.min(blocks, this.#blocksMax);
  }

  /**
   * Upper bound of a sequence's tokens: the limits of the model and the options, and the size of
   * the pool unless a window releases blocks behind it.
   */
  contextTokensMax(): number {
    const { options, spec } = this.#parts;
    // The last token of a sequence is sampled but never computed. Groups with a window let a
    // sequence become longer than the pool's share of each group.
    const poolTokens = this.blocks() * this.block.blockTokens + 1;
    return Math.min(
      modelContextTokens(options, spec),
      options.scheduler.contextTokensMax ?? Number.POSITIVE_INFINITY,
      this.windows.includes(null) ? poolTokens : Number.POSITIVE_INFINITY,
    );
  }
}

/** The options with this share of the memory for keys and values. */
export function ofShare(options: EngineOptions, share: number): EngineOptions {
  if (share === 1) return options;
  const { kvCache } = options;
  const part = (bytes: number) => Math.floor(bytes * share);
  const poolBytes = kvCache.poolBytes === null ? null : part(kvCache.poolBytes);
  return {
    ...options,
    kvCache: { ...kvCache, poolBytes, hostCacheBytes: part(kvCache.hostCacheBytes) },
  };
}

/** Scales of the layers that are here. */
function scalesOf({ key, value }: KvScales, range: LayerRange | null): KvScales {
  if (range === null) return { key, value };
  const { first, end } = range;
  return { key: key.slice(first, end), value: value.slice(first, end) };
}
