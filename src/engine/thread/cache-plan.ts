import type { Checkpoint } from "#checkpoint";
import type { Device, KvBlockOptions, WeightFormat } from "#devices";
import type { EngineOptions } from "#engine/protocol";
import type { CacheWindow } from "#kvcache";
import { cacheWindow, type DecoderSpec, kvScales } from "#models";
import { modelContextTokens, streamingOf } from "./attention-window.ts";
import { kvFormatFor, poolBlocks } from "./memory-plan.ts";

/** A decoder that is about to get a cache. */
export interface CachePlanParts {
  readonly device: Device;
  readonly options: EngineOptions;
  readonly checkpoint: Checkpoint;
  readonly spec: DecoderSpec;
  /** How the weights are kept. */
  readonly format: WeightFormat;
}

/** What is known of a decoder's cache before its memory is taken. */
export class CachePlan {
  readonly block: KvBlockOptions;
  readonly window: CacheWindow | null;
  readonly #parts: CachePlanParts;

  /** Throws CHECKPOINT_INVALID where the checkpoint's scales cannot be used. */
  constructor(parts: CachePlanParts) {
    const { options, checkpoint, spec } = parts;
    const format = kvFormatFor(options, parts.format);
    const { kvHeads, headDim } = spec;
    const layers = spec.layers.length;
    const scales = kvScales(checkpoint, { layers, format });
    const { blockTokens } = options.kvCache;
    this.block = {
      ...{ layers, blockTokens, kvHeads, headDim, format },
      ...(scales !== null && { scales }),
    };
    this.window = cacheWindow(spec, streamingOf(options));
    this.#parts = parts;
  }

  /** Blocks that the pool would get now: fewer when more of the device is taken. */
  blocks(): number {
    const { device, options, spec } = this.#parts;
    const { blockTokens } = this.block;
    return poolBlocks({ bytes: device.kvBytesPerBlock(this.block), blockTokens }, options, {
      contextTokensMax: options.scheduler.contextTokensMax ?? spec.contextTokensMax,
      ...device.memory(),
      accelerator: device.accelerator,
    });
  }

  /**
   * More tokens than any sequence will have: as the model and the options say, and no more than the
   * pool has room for, except where a window lets go of what lies behind it.
   */
  contextTokensMax(): number {
    const { options, spec } = this.#parts;
    // The last token of a sequence is drawn but never computed.
    const poolTokens = this.blocks() * this.block.blockTokens + 1;
    return Math.min(
      modelContextTokens(options, spec),
      options.scheduler.contextTokensMax ?? Number.POSITIVE_INFINITY,
      this.window === null ? poolTokens : Number.POSITIVE_INFINITY,
    );
  }
}
