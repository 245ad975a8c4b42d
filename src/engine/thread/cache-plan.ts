import type { Checkpoint } from "#checkpoint";
import type { Device, KvBlockOptions, KvPoolOptions, WeightFormat } from "#devices";
import { type ScratchSize, scratchBlocks } from "#engine/forward";
import type { EngineOptions } from "#engine/protocol";
import type { CacheWindow } from "#kvcache";
import {
  type DecoderSpec,
  type KvLayout,
  type KvShape,
  kvLayout,
  kvScales,
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
  /** A drafter's part of each block; null: there is none. */
  readonly drafterBlock: KvBlockOptions | null;
  readonly #parts: CachePlanParts;

  /** Throws CHECKPOINT_INVALID where the checkpoint's scales cannot be used. */
  constructor(parts: CachePlanParts) {
    const { options, checkpoint, spec } = parts;
    const format = kvFormatFor(options, parts.format);
    const { kvHeads, headDim } = spec;
    this.layout = kvLayout(spec, {
      streaming: streamingOf(options),
      servedTokens: servedTokens(options, spec),
    });
    const layers = this.layout.layersPerBlock;
    const scales = kvScales(checkpoint, { layers: spec.layers.length, format });
    const { blockTokens } = options.kvCache;
    this.block = {
      ...{ layers, blockTokens, kvHeads, headDim, format },
      ...(scales !== null && { scales }),
    };
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

  /** Blocks that the pool would get now: fewer when more device memory is in use. */
  blocks(): number {
    const { device, options, spec } = this.#parts;
    const { blockTokens } = this.block;
    const groups = this.layout.groups.length;
    const drafterBytes = this.drafterBlock ? device.kvBytesPerBlock(this.drafterBlock) : 0;
    const bytes = device.kvBytesPerBlock(this.block) + drafterBytes;
    const { totalBytes, availableBytes } = device.memory();
    const scratchBytes = drafterBytes * this.#scratchBlocks;
    return poolBlocks({ bytes, blockTokens, groups }, options, {
      contextTokensMax: options.scheduler.contextTokensMax ?? spec.contextTokensMax,
      totalBytes,
      availableBytes: Math.max(0, availableBytes - scratchBytes),
      accelerator: device.accelerator,
    });
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
