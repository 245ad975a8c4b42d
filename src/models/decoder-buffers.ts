import type { Activation, Device, DeviceTensor, WeightFormat } from "#devices";
import type { DecoderSpec, FeedForwardSpec } from "./decoder-spec.ts";
import { routerFormatOf } from "./decoder-weights.ts";

/** The largest step, which a decoder's memory is allocated for. */
export interface DecoderLimits {
  /** T: most tokens of a step. */
  readonly stepTokensMax: number;
  /** S: most sequences of a step. */
  readonly sequencesMax: number;
  /** R: most rows with logits or hidden states at once. */
  readonly logitRowsMax: number;
  /** M: most blocks of a sequence. */
  readonly blocksPerSequenceMax: number;
  /**
   * P, so that only the entries of a block table that its context needs are copied to the device; 1
   * by default, which copies too many, and works for any cache.
   */
  readonly blockTokens?: number;
  /**
   * Most positions of a sequence; by default the model's own, which is also the limit without
   * sinks.
   */
  readonly contextTokensMax?: number;
  /** Most tokens of a sequence under a tree mask; 0, the default: no masks. */
  readonly treeTokensMax?: number;
}

/** All memory of a step except its input, allocated once. Letters: `devices/ops.ts`. */
export interface DecoderBuffers {
  /** [T, E] f32: the residual stream. */
  readonly x: DeviceTensor;
  /** [T, E]: normalised, the input of the next linear. */
  readonly input: Activation;
  /** [T, (H + 2K) * D] and [T, H * D] f32. */
  readonly qkv: DeviceTensor;
  readonly query: DeviceTensor;
  /** [T, H * D] f32: the queries for sinks; null without sinks. */
  readonly sinkQuery: DeviceTensor | null;
  /** [T, H * D]. */
  readonly attended: Activation;
  /** [T, E] f32: a branch before and after its own norm; null where branches have none. */
  readonly branch: { readonly plain: DeviceTensor; readonly normed: DeviceTensor } | null;
  readonly feedForward: FeedForwardBuffers;
  /** [R, E] f32: `x` of the wanted rows, and with norms of branches the pending addend. */
  readonly kept: { readonly x: DeviceTensor; readonly delta: DeviceTensor | null };

  /** Output rows. [R] i32, [R, E] f32 twice, [R, E], [R, V] f32. */
  readonly rowIndices: DeviceTensor;
  readonly gathered: DeviceTensor;
  readonly hidden: DeviceTensor;
  readonly headInput: Activation;
  readonly logits: DeviceTensor;
}

/** One feed-forward's scratch, large enough for every layer. */
export interface FeedForwardBuffers {
  /** By `denseKey`: [T, F], or gated [T, 2F], f32; and [T, F]. */
  readonly dense: ReadonlyMap<
    string,
    { readonly input: DeviceTensor; readonly output: Activation }
  >;
  readonly experts: ExpertBuffers | null;
}

export interface ExpertBuffers {
  /** [T, X] f32. */
  readonly routerLogits: DeviceTensor;
  /** Where the router has a format of its own: [T, E] f32, and [T, E] in that format. */
  readonly router: { readonly normed: DeviceTensor; readonly input: Activation } | null;
}

/** The key of a dense layer's scratch in `FeedForwardBuffers.dense`. */
export function denseKey(spec: Extract<FeedForwardSpec, { kind: "dense" }>): string {
  return `${spec.size} ${spec.gated}`;
}

export interface DecoderBufferOptions {
  readonly limits: DecoderLimits;
  readonly format: WeightFormat;
  /** Some branch has a norm of its own (Gemma-2). */
  readonly branchNorms: boolean;
  /** Queries are rotated a second time for attention sinks. */
  readonly sinks: boolean;
}

/** Throws OUT_OF_MEMORY. */
export function allocateDecoderBuffers(
  device: Device,
  spec: DecoderSpec,
  options: DecoderBufferOptions,
): DecoderBuffers {
  const { limits, format } = options;
  const { stepTokensMax: tokens } = limits;
  const { hiddenSize, headDim, heads, kvHeads } = spec;
  // No row is read of a part without the output layer.
  const rows = spec.part?.ends === false ? 1 : limits.logitRowsMax;
  const f32 = (...shape: number[]): DeviceTensor => device.allocate("f32", shape);
  return {
    x: f32(tokens, hiddenSize),
    input: device.allocateActivation(format, tokens, hiddenSize),
    qkv: f32(tokens, (heads + 2 * kvHeads) * headDim),
    query: f32(tokens, heads * headDim),
    sinkQuery: options.sinks ? f32(tokens, heads * headDim) : null,
    attended: device.allocateActivation(format, tokens, heads * headDim),
    branch: options.branchNorms
      ? { plain: f32(tokens, hiddenSize), normed: f32(tokens, hiddenSize) }
      : null,
    feedForward: allocateFeedForward(device, spec, { tokens, format }),
    kept: {
      x: f32(rows, hiddenSize),
      delta: options.branchNorms ? f32(rows, hiddenSize) : null,
    },
    rowIndices: device.allocate("i32", [rows]),
    gathered: f32(rows, hiddenSize),
    hidden: f32(rows, hiddenSize),
    headInput: device.allocateActivation(format, rows, hiddenSize),
    logits: f32(rows, spec.vocabularySize),
  };
}

function allocateFeedForward(
  device: Device,
  spec: DecoderSpec,
  { tokens, format }: { readonly tokens: number; readonly format: WeightFormat },
): FeedForwardBuffers {
  const dense = new Map<string, { input: DeviceTensor; output: Activation }>();
  let experts: ExpertBuffers | null = null;
  for (const { feedForward } of spec.layers) {
    if (feedForward.kind === "experts") {
      experts ??= allocateExperts(device, spec.hiddenSize, { ...feedForward, tokens, format });
    } else if (!dense.has(denseKey(feedForward))) {
      const width = feedForward.gated ? 2 * feedForward.size : feedForward.size;
      dense.set(denseKey(feedForward), {
        input: device.allocate("f32", [tokens, width]),
        output: device.allocateActivation(format, tokens, feedForward.size),
      });
    }
  }
  return { dense, experts };
}

function allocateExperts(
  device: Device,
  hiddenSize: number,
  options: { readonly tokens: number; readonly format: WeightFormat; readonly experts: number },
): ExpertBuffers {
  const { tokens, format, experts } = options;
  const routerFormat = routerFormatOf(format);
  const routerLogits = device.allocate("f32", [tokens, experts]);
  if (routerFormat === format) return { routerLogits, router: null };
  const normed = device.allocate("f32", [tokens, hiddenSize]);
  const input = device.allocateActivation(routerFormat, tokens, hiddenSize);
  return { routerLogits, router: { normed, input } };
}
