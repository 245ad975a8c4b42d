import { assert } from "#base";
import type { Activation, Device, DeviceTensor, WeightFormat } from "#devices";
import type { EncoderSpec } from "./encoder-spec.ts";
import type { EncoderLayerWeights, EncoderWeights } from "./encoder-weights.ts";

/** Sequences to encode together. T tokens · S sequences. */
export interface EncoderInput {
  /** T. */
  readonly tokens: number;
  /** S. */
  readonly sequences: number;
  /** [T]. */
  readonly tokenIds: Int32Array;
  /** [T], 0-based places of the tokens in their sequences. */
  readonly positions: Int32Array;
  /** [S + 1]: sequence s owns tokens starts[s] up to starts[s + 1]. */
  readonly starts: Int32Array;
}

/** The largest batch, which an encoder's memory is allocated for. */
export interface EncoderLimits {
  readonly stepTokensMax: number;
  readonly sequencesMax: number;
}

export interface EncoderOptions {
  readonly device: Device;
  readonly spec: EncoderSpec;
  readonly weights: EncoderWeights;
  readonly limits: EncoderLimits;
}

/**
 * Runs a BERT-style encoder: no cache, no causal order, norms after each branch. Source: Devlin et
 * al. 2018, "BERT".
 */
export class Encoder {
  readonly spec: EncoderSpec;
  readonly #device: Device;
  readonly #weights: EncoderWeights;
  readonly #limits: EncoderLimits;
  readonly #buffers: EncoderBuffers;
  #input: Pick<EncoderInput, "tokens" | "sequences"> = { tokens: 0, sequences: 0 };

  /** Throws OUT_OF_MEMORY. */
  constructor(options: EncoderOptions) {
    const { device, spec, weights, limits } = options;
    this.spec = spec;
    this.#device = device;
    this.#limits = limits;
    this.#weights = weights;
    this.#buffers = allocateBuffers(device, spec, { limits, format: weights.format });
  }

  /** Makes `input` the next batch. Its arrays may be reused when this returns. */
  stage(input: EncoderInput): void {
    const { stepTokensMax, sequencesMax } = this.#limits;
    const { tokens, sequences } = input;
    assert(
      tokens > 0 && tokens <= stepTokensMax && sequences > 0 && sequences <= sequencesMax,
      `Cannot stage ${tokens} tokens of ${sequences} sequences: at most ` +
        `${stepTokensMax} of ${sequencesMax} fit`,
    );
    this.#device.write(this.#buffers.tokenIds, input.tokenIds.subarray(0, tokens));
    this.#device.write(this.#buffers.positions, input.positions.subarray(0, tokens));
    this.#device.write(this.#buffers.starts, input.starts.subarray(0, sequences + 1));
    this.#input = { tokens, sequences };
  }

  /** Enqueues all layers. */
  forward(): void {
    const { tokenIds, positions, x, y } = this.#buffers;
    const count = this.#input.tokens;
    assert(count > 0, "Cannot run a batch: none is staged");
    const { tokens, positions: table } = this.#weights;
    this.#device.embed({ count, out: y, ids: tokenIds, table: tokens });
    this.#device.embed({ count, out: y, ids: positions, table, accumulate: true });
    this.#device.norm({ count, out: x, x: y, ...this.#weights.embeddingNorm });
    for (const layer of this.#weights.layers) this.#layer(layer);
  }

  /** [T, E] f32, valid until the next `forward`. */
  lastHidden(): DeviceTensor {
    return this.#device.rows(this.#buffers.x, 0, this.#input.tokens);
  }

  /** [S, E] f32: the mean of each sequence's rows, of length 1 with `normalize`. */
  meanPooled(normalize: boolean): DeviceTensor {
    const { x, starts, pooled } = this.#buffers;
    const { sequences } = this.#input;
    this.#device.meanPool({ out: pooled, x, starts, sequences, normalize });
    return this.#device.rows(pooled, 0, sequences);
  }

  /** Branches add to the rows; the norm after each moves them to the other buffer and back. */
  #layer(layer: EncoderLayerWeights): void {
    const { x, y, input, qkv, attended, starts, wide, activated } = this.#buffers;
    const { heads, headDim, activation: kind } = this.spec;
    const { tokens: count, sequences } = this.#input;
    const scale = headDim ** -0.5;
    const accumulate = true;

    this.#device.convert({ count, out: input, x });
    this.#device.linear({ count, out: qkv, x: input, ...layer.qkv });
    const batch = { heads, headDim, starts, sequences, scale };
    this.#device.encoderAttention({ count, out: attended, qkv, ...batch });
    this.#device.linear({ count, out: x, x: attended, accumulate, ...layer.attentionOutput });
    this.#device.norm({ count, out: y, x, ...layer.attentionNorm });

    this.#device.convert({ count, out: input, x: y });
    this.#device.linear({ count, out: wide, x: input, ...layer.input });
    this.#device.activate({ count, kind, out: activated, x: wide, gated: false });
    this.#device.linear({ count, out: y, x: activated, accumulate, ...layer.output });
    this.#device.norm({ count, out: x, x: y, ...layer.outputNorm });
  }
}

/** All memory of a batch. Letters: `devices/ops.ts`. */
interface EncoderBuffers {
  /** [T], [T] and [S + 1] i32. */
  readonly tokenIds: DeviceTensor;
  readonly positions: DeviceTensor;
  readonly starts: DeviceTensor;
  /** [T, E] f32: the rows before attention, and before the feed-forward. */
  readonly x: DeviceTensor;
  readonly y: DeviceTensor;
  /** [T, E]. */
  readonly input: Activation;
  /** [T, 3 * H * D] f32. */
  readonly qkv: DeviceTensor;
  /** [T, H * D]. */
  readonly attended: Activation;
  /** [T, F] f32, and [T, F]. */
  readonly wide: DeviceTensor;
  readonly activated: Activation;
  /** [S, E] f32. */
  readonly pooled: DeviceTensor;
}

function allocateBuffers(
  device: Device,
  spec: EncoderSpec,
  { limits, format }: { readonly limits: EncoderLimits; readonly format: WeightFormat },
): EncoderBuffers {
  const { stepTokensMax: tokens, sequencesMax: sequences } = limits;
  const { hiddenSize, feedForwardSize } = spec;
  const width = spec.heads * spec.headDim;
  return {
    tokenIds: device.allocate("i32", [tokens]),
    positions: device.allocate("i32", [tokens]),
    starts: device.allocate("i32", [sequences + 1]),
    x: device.allocate("f32", [tokens, hiddenSize]),
    y: device.allocate("f32", [tokens, hiddenSize]),
    input: device.allocateActivation(format, tokens, hiddenSize),
    qkv: device.allocate("f32", [tokens, 3 * width]),
    attended: device.allocateActivation(format, tokens, width),
    wide: device.allocate("f32", [tokens, feedForwardSize]),
    activated: device.allocateActivation(format, tokens, feedForwardSize),
    pooled: device.allocate("f32", [sequences, hiddenSize]),
  };
}
