import { assert } from "#base";
import type { Device, DeviceTensor } from "#devices";
import type { NormWeights } from "./decoder-weights.ts";
import {
  allocateEncoderBuffers,
  type EncoderBuffers,
  type EncoderLimits,
} from "./encoder-buffers.ts";
import { encoderPositions } from "./encoder-positions.ts";
import type { EncoderLayerSpec, EncoderSpec } from "./encoder-spec.ts";
import type { EncoderLayerWeights, EncoderWeights } from "./encoder-weights.ts";
import { ropeTable } from "./rope.ts";
import { ScoreHead } from "./score-head.ts";

/** Sequences to encode together. T tokens · S sequences. */
export interface EncoderInput {
  /** T. */
  readonly tokens: number;
  /** S. */
  readonly sequences: number;
  /** [T]. */
  readonly tokenIds: Int32Array;
  /** [T]; absent: all are 0. Without effect on a model without token types. */
  readonly tokenTypes?: Int32Array;
  /** [S + 1]: sequence s owns tokens starts[s] up to starts[s + 1]. */
  readonly starts: Int32Array;
}

export interface EncoderOptions {
  readonly device: Device;
  readonly spec: EncoderSpec;
  readonly weights: EncoderWeights;
  readonly limits: EncoderLimits;
}

/**
 * Runs an encoder: no cache, no causal order. Sources: Devlin et al. 2018, "BERT"; Nussbaum et al.
 * 2024, "Nomic Embed"; Warner et al. 2024, "ModernBERT".
 */
export class Encoder {
  readonly spec: EncoderSpec;
  readonly #device: Device;
  readonly #weights: EncoderWeights;
  readonly #limits: EncoderLimits;
  readonly #buffers: EncoderBuffers;
  readonly #head: ScoreHead | null;
  /** Angles of each layer, shared where they are the same. Null: not rotated. */
  readonly #ropes: readonly (DeviceTensor | null)[];
  #input: Pick<EncoderInput, "tokens" | "sequences"> = { tokens: 0, sequences: 0 };

  /** Throws OUT_OF_MEMORY. */
  constructor(options: EncoderOptions) {
    const { device, spec, weights, limits } = options;
    this.spec = spec;
    this.#device = device;
    this.#limits = limits;
    this.#weights = weights;
    const buffers = allocateEncoderBuffers(device, spec, { limits, format: weights.format });
    this.#buffers = buffers;
    this.#ropes = ropesOf(device, spec);
    const { head } = spec;
    const made = head !== null && weights.head !== null && buffers.head !== null;
    this.#head = made
      ? new ScoreHead({ device, spec: head, weights: weights.head, buffers: buffers.head })
      : null;
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
    const tokenIds = input.tokenIds.subarray(0, tokens);
    const starts = input.starts.subarray(0, sequences + 1);
    const device = this.#device;
    device.write(this.#buffers.tokenIds, tokenIds);
    device.write(this.#buffers.positions, encoderPositions(this.spec, { tokenIds, starts }));
    device.write(this.#buffers.starts, starts);
    if (this.#weights.tokenTypes !== null) {
      const types = input.tokenTypes?.subarray(0, tokens) ?? new Int32Array(tokens);
      device.write(this.#buffers.tokenTypes, types);
    }
    this.#input = { tokens, sequences };
  }

  /** Enqueues all layers. */
  forward(): void {
    const { x, y } = this.#buffers;
    const count = this.#input.tokens;
    assert(count > 0, "Cannot run a batch: none is staged");
    this.#embed(y);
    this.#device.norm({ count, out: x, x: y, ...this.#weights.embeddingNorm });
    const isBehind = this.spec.norms === "behind";
    for (const [index, layer] of this.#weights.layers.entries()) {
      const { reach = null } = this.spec.layers[index] ?? {};
      const at = { reach, rope: this.#ropes[index] ?? null };
      if (isBehind) this.#layerNormedBehind(layer, at);
      else this.#layerNormedBefore(layer, at);
    }
    const { finalNorm } = this.#weights;
    if (finalNorm !== null) this.#device.norm({ count, out: y, x, ...finalNorm });
  }

  /** [T, E] f32, valid until the next `forward`. */
  lastHidden(): DeviceTensor {
    return this.#device.rows(this.#hidden, 0, this.#input.tokens);
  }

  /** [S, E] f32: the mean of each sequence's rows, of length 1 with `normalize`. */
  meanPooled(normalize: boolean): DeviceTensor {
    const { starts, pooled } = this.#buffers;
    const { sequences } = this.#input;
    this.#device.meanPool({ out: pooled, x: this.#hidden, starts, sequences, normalize });
    return this.#device.rows(pooled, 0, sequences);
  }

  /** [S, 1] f32: the head's output for each sequence, before any sigmoid. */
  scores(): DeviceTensor {
    assert(this.#head !== null, "Cannot score: the model has no head for it");
    const { starts, pooled } = this.#buffers;
    const { sequences } = this.#input;
    if (this.#head.pooling === "mean") this.meanPooled(false);
    else {
      const x = this.#hidden;
      this.#device.gatherRows({ count: sequences, out: pooled, x, indices: starts });
    }
    return this.#head.scores(pooled, sequences);
  }

  get #hidden(): DeviceTensor {
    const { x, y } = this.#buffers;
    return this.#weights.finalNorm === null ? x : y;
  }

  /** The sum of a token's embeddings. */
  #embed(out: DeviceTensor): void {
    const { tokenIds, positions, tokenTypes } = this.#buffers;
    const { tokens, positions: places, tokenTypes: types } = this.#weights;
    const count = this.#input.tokens;
    const accumulate = true;
    this.#device.embed({ count, out, ids: tokenIds, table: tokens });
    if (places !== null) {
      this.#device.embed({ count, out, ids: positions, table: places, accumulate });
    }
    if (types !== null) {
      this.#device.embed({ count, out, ids: tokenTypes, table: types, accumulate });
    }
  }

  /** Branches add to the rows; the norm after each moves them to the other buffer and back. */
  #layerNormedBehind(layer: EncoderLayerWeights, at: LayerSite): void {
    const { x, y, input } = this.#buffers;
    const { tokens: count } = this.#input;
    this.#device.convert({ count, out: input, x });
    this.#attend(layer, at, x);
    this.#normed(layer.attentionNorm, x, y);
    this.#device.convert({ count, out: input, x: y });
    this.#feedForward(layer, y);
    this.#device.norm({ count, out: x, x: y, ...layer.outputNorm });
  }

  /** Branches read normalised rows, and add to the rows themselves. */
  #layerNormedBefore(layer: EncoderLayerWeights, at: LayerSite): void {
    const { x, input } = this.#buffers;
    const { tokens: count } = this.#input;
    const { attentionNorm } = layer;
    if (attentionNorm === null) this.#device.convert({ count, out: input, x });
    else this.#device.norm({ count, out: input, x, ...attentionNorm });
    this.#attend(layer, at, x);
    this.#device.norm({ count, out: input, x, ...layer.outputNorm });
    this.#feedForward(layer, x);
  }

  #normed(norm: NormWeights | null, x: DeviceTensor, out: DeviceTensor): void {
    assert(norm !== null, "Cannot run a layer without its norm behind the attention");
    this.#device.norm({ count: this.#input.tokens, out, x, ...norm });
  }

  /** `x` += attention of `input`. */
  #attend(layer: EncoderLayerWeights, { reach, rope }: LayerSite, x: DeviceTensor): void {
    const { input, qkv, attended, starts, positions } = this.#buffers;
    const { heads, headDim } = this.spec;
    const { tokens: count, sequences } = this.#input;
    this.#device.linear({ count, out: qkv, x: input, ...layer.qkv });
    if (rope !== null) {
      this.#device.rotateHeads({ count, x: qkv, heads: 2 * heads, headDim, positions, rope });
    }
    const scale = headDim ** -0.5;
    const batch = { heads, headDim, starts, sequences, scale, ...(reach !== null && { reach }) };
    this.#device.encoderAttention({ count, out: attended, qkv, ...batch });
    this.#device.linear({ count, out: x, x: attended, accumulate: true, ...layer.attentionOutput });
  }

  /** `out` += the feed-forward network of `input`. */
  #feedForward(layer: EncoderLayerWeights, out: DeviceTensor): void {
    const { input, wide, activated } = this.#buffers;
    const { activation: kind, gated } = this.spec;
    const { tokens: count } = this.#input;
    this.#device.linear({ count, out: wide, x: input, ...layer.input });
    this.#device.activate({ count, kind, out: activated, x: wide, gated });
    this.#device.linear({ count, out, x: activated, accumulate: true, ...layer.output });
  }
}

/** What is a layer's own. */
interface LayerSite {
  readonly reach: number | null;
  readonly rope: DeviceTensor | null;
}

/** A table of angles for each kind of rope that layers have. */
function ropesOf(device: Device, spec: EncoderSpec): readonly (DeviceTensor | null)[] {
  const tables = new Map<string, DeviceTensor>();
  return spec.layers.map(({ rope }: EncoderLayerSpec) => {
    if (rope === null) return null;
    const name = JSON.stringify(rope);
    const known = tables.get(name);
    if (known !== undefined) return known;
    const positions = spec.contextTokensMax;
    const table = device.allocate("f32", [positions, rope.rotaryDim]);
    device.write(table, ropeTable(rope, { positions }));
    tables.set(name, table);
    return table;
  });
}
