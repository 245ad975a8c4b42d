import type { Checkpoint } from "#checkpoint";
import type { Device, KvBlockOptions, WeightFormat } from "#devices";
import type { EngineOptions } from "#engine/protocol";
import type { CacheWindow } from "#kvcache";
import { type DecoderSpec, type KvLayout, kvLayout, kvScales } from "#models";
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
}

/** Properties of a decoder's cache, before its memory is allocated. */
export class CachePlan {
  readonly block: KvBlockOptions;
  /** Which layers share blocks. */
  readonly layout: KvLayout;
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
    this.#parts = parts;
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
    const bytes = device.kvBytesPerBlock(this.block);
    return poolBlocks({ bytes, blockTokens, groups }, options, {
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
