import { assert } from "#base";
import type { Device, DeviceTensor, WeightFormat, WeightMatrix } from "#devices";
import type { EncoderModel } from "./architecture.ts";
import type { NormWeights } from "./decoder-weights.ts";
import type { EncoderSpec } from "./encoder-spec.ts";
import { type LinearWeights, WeightLoader, type WeightOptions } from "./weight-loader.ts";
import type {
  EncoderLayerNames,
  EncoderNames,
  LinearNames,
  ScoreHeadNames,
} from "./weight-names.ts";

/** One layer: attention and feed-forward, each with its norm. */
export interface EncoderLayerWeights {
  readonly qkv: LinearWeights;
  readonly attentionOutput: LinearWeights;
  /** Null: the layer's input is normalised already. */
  readonly attentionNorm: NormWeights | null;
  readonly input: LinearWeights;
  readonly output: LinearWeights;
  readonly outputNorm: NormWeights;
}

/** A head that scores pairs, in f32. */
export interface ScoreHeadWeights {
  readonly dense: LinearWeights;
  readonly norm: NormWeights | null;
  readonly output: LinearWeights;
}

/** All weights of an encoder on a device. */
export interface EncoderWeights {
  readonly format: WeightFormat;
  /** [V, E]. */
  readonly tokens: WeightMatrix;
  /** [rows, E] f32; null: positions are not learned. */
  readonly positions: DeviceTensor | null;
  /** [types, E] f32; null: there are no token types. */
  readonly tokenTypes: DeviceTensor | null;
  readonly embeddingNorm: NormWeights;
  readonly layers: readonly EncoderLayerWeights[];
  /** Null: norms stand behind the branches. */
  readonly finalNorm: NormWeights | null;
  readonly head: ScoreHeadWeights | null;
  /** Elements in the checkpoint's tensors that are used. */
  readonly parameters: number;
}

/** Packs in `format`. Throws CHECKPOINT_INVALID, which names the tensor, and OUT_OF_MEMORY. */
export function loadEncoderWeights(
  device: Device,
  { spec, names }: EncoderModel,
  options: WeightOptions,
): EncoderWeights {
  const loader = new WeightLoader(device, names.optionalPrefix, options);
  return new EncoderLoader(loader, spec, options.format).load(names);
}

/** Loads one part after another. */
class EncoderLoader {
  readonly #loader: WeightLoader;
  readonly #spec: EncoderSpec;
  readonly #format: WeightFormat;

  constructor(loader: WeightLoader, spec: EncoderSpec, format: WeightFormat) {
    this.#loader = loader;
    this.#spec = spec;
    this.#format = format;
  }

  load(names: EncoderNames): EncoderWeights {
    const { vocabularySize, hiddenSize, positions, tokenTypes } = this.#spec;
    const table = { modules: [names.tokens], bias: false };
    const { weight: tokens } = this.#linear(table, [vocabularySize], hiddenSize);
    const rows = positions.kind === "learned" ? positions.rows : 0;
    return {
      format: this.#format,
      tokens,
      positions: this.#table(names.positions, rows),
      tokenTypes: this.#table(names.tokenTypes, tokenTypes),
      embeddingNorm: this.#norm(names.embeddingNorm),
      layers: this.#spec.layers.map((_, index) => this.#layer(names.layer(index))),
      finalNorm: names.finalNorm === undefined ? null : this.#norm(names.finalNorm),
      head: this.#spec.head === null ? null : this.#head(names.head),
      parameters: this.#loader.parameters,
    };
  }

  /** [rows, E] f32. */
  #table(module: string | undefined, rows: number): DeviceTensor | null {
    if (rows === 0) return null;
    assert(module !== undefined, "Cannot load a table of an encoder without its name");
    return this.#loader.tensor(`${module}.weight`, [rows, this.#spec.hiddenSize]);
  }

  #norm(module: string): NormWeights {
    const { epsilon, hiddenSize, normBias } = this.#spec;
    const weight = this.#loader.tensor(`${module}.weight`, [hiddenSize]);
    if (!normBias) return { kind: "layer", epsilon, weight };
    const bias = this.#loader.tensor(`${module}.bias`, [hiddenSize]);
    return { kind: "layer", epsilon, weight, bias };
  }

  #layer(names: EncoderLayerNames): EncoderLayerWeights {
    const { hiddenSize, feedForwardSize: wide, heads, headDim, gated } = this.#spec;
    const width = heads * headDim;
    return {
      qkv: this.#linear(names.qkv, [width, width, width], hiddenSize),
      attentionOutput: this.#linear(names.attentionOutput, [hiddenSize], width),
      attentionNorm: names.attentionNorm === null ? null : this.#norm(names.attentionNorm),
      input: this.#linear(names.input, gated ? [wide, wide] : [wide], hiddenSize),
      output: this.#linear(names.output, [hiddenSize], wide),
      outputNorm: this.#norm(names.outputNorm),
    };
  }

  #head(names: ScoreHeadNames | undefined): ScoreHeadWeights {
    const { hiddenSize } = this.#spec;
    assert(names !== undefined, "Cannot load a head without its names");
    const loader = this.#loader;
    return {
      dense: loader.linear(names.dense, { rows: [hiddenSize], columns: hiddenSize }, "f32"),
      norm: names.norm === undefined ? null : this.#norm(names.norm),
      output: loader.linear(names.output, { rows: [1], columns: hiddenSize }, "f32"),
    };
  }

  /**
   * `rows`: of each module. One module may hold them all, as ModernBERT's queries, keys and values
   * are stored.
   */
  #linear(names: LinearNames, rows: readonly number[], columns: number): LinearWeights {
    const isOne = names.modules.length === 1;
    const all = rows.reduce((sum, count) => sum + count, 0);
    return this.#loader.linear(names, { rows: isOne ? [all] : rows, columns }, this.#format);
  }
}
