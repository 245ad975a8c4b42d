import type { Checkpoint } from "#checkpoint";
import type { Device, KvBlockOptions, WeightFormat } from "#devices";
import type { EngineOptions } from "#engine/protocol";
import type { CacheWindow } from "#kvcache";
import { cacheWindow, type DecoderSpec, kvScales } from "#models";
import { modelContextTokens, streamingOf } from "./attention-window.ts";
import { kvFormatFor, poolBlocks } from "./memory-plan.ts";

/** A decoder before its cache is allocated. */
export interface CachePlanParts {
  readonly device: Device;
  readonly options: EngineOptions;
  readonly checkpoint: Checkpoint;
  readonly spec: DecoderSpec;
  /** Format of the weights. */
  readonly format: WeightFormat;
}

/** Properties of a decoder's cache, before its memory is allocated. */
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

  /** Blocks that the pool would get now: fewer when more device memory is in use. */
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
   * Upper bound of a sequence's tokens: the limits of the model and the options, and the size of
   * the pool unless a window releases blocks behind it.
   */
  contextTokensMax(): number {
    const { options, spec } = this.#parts;
    // The last token of a sequence is sampled but never computed.
    const poolTokens = this.blocks() * this.block.blockTokens + 1;
    return Math.min(
      modelContextTokens(options, spec),
      options.scheduler.contextTokensMax ?? Number.POSITIVE_INFINITY,
      this.window === null ? poolTokens : Number.POSITIVE_INFINITY,
    );
  }
}
