import { assert } from "#base";
import type { Device, DeviceTensor, NormInput, WeightFormat, WeightMatrix } from "#devices";
import type { DecoderModel } from "./architecture.ts";
import type { DecoderSpec, FeedForwardSpec } from "./decoder-spec.ts";
import { type LinearWeights, WeightLoader, type WeightOptions } from "./weight-loader.ts";
import type { FeedForwardNames, LayerNames } from "./weight-names.ts";

/** A norm, to be spread into the input of `Device.norm`. */
export type NormWeights = Pick<NormInput, "kind" | "weight" | "bias" | "epsilon" | "weightOffset">;

/** One layer on a device. `weight-names.ts` lists the possible norms. */
export interface LayerWeights {
  readonly attentionNorm: NormWeights;
  readonly qkv: LinearWeights;
  /** [D] each. */
  readonly queryNorm: DeviceTensor | null;
  readonly keyNorm: DeviceTensor | null;
  readonly attentionOutput: LinearWeights;
  readonly postAttentionNorm: NormWeights | null;
  readonly feedForwardNorm: NormWeights | null;
  readonly feedForward: FeedForwardWeights;
  readonly postFeedForwardNorm: NormWeights | null;
}

export type FeedForwardWeights =
  | { readonly kind: "dense"; readonly input: LinearWeights; readonly output: LinearWeights }
  | {
      readonly kind: "experts";
      readonly router: LinearWeights;
      readonly gateUp: readonly WeightMatrix[];
      readonly down: readonly WeightMatrix[];
    };

/** All weights of a decoder on a device. */
export interface DecoderWeights {
  readonly format: WeightFormat;
  /** [V, E]; null for a part of a decoder that neither embeds nor has a tied output layer. */
  readonly tokens: WeightMatrix | null;
  /** [rows, E], learned positions only. */
  readonly positions: DeviceTensor | null;
  readonly layers: readonly LayerWeights[];
  /** Null for a part without the output layer, as `head`. */
  readonly finalNorm: NormWeights | null;
  /** [V, E]: the token table itself where they are tied. */
  readonly head: LinearWeights | null;
  /** Elements in the checkpoint's tensors that are used. */
  readonly parameters: number;
}

/** Of a whole decoder, not of a part. */
export type WholeDecoderWeights = DecoderWeights & {
  readonly tokens: WeightMatrix;
  readonly finalNorm: NormWeights;
  readonly head: LinearWeights;
};

/** The weights as those of a whole decoder, which they must be. */
export function wholeWeights(weights: DecoderWeights): WholeDecoderWeights {
  const { tokens, finalNorm, head } = weights;
  const isWhole = tokens !== null && finalNorm !== null && head !== null;
  assert(isWhole, "Cannot draft for a part of a decoder");
  return { ...weights, tokens, finalNorm, head };
}

/**
 * The router's format: f32, since small differences decide and 8 bits would choose other experts.
 */
export function routerFormatOf(format: WeightFormat): WeightFormat {
  return format === "i8" || format === "q8" ? "f32" : format;
}

/**
 * Packs a checkpoint's weights in `format`. Throws OUT_OF_MEMORY, and CHECKPOINT_INVALID, which
 * names the tensor, where one is missing or its shape contradicts config.json.
 */
export function loadDecoderWeights(
  device: Device,
  model: DecoderModel,
  options: WeightOptions,
): DecoderWeights {
  const { spec, names } = model;
  const { format } = options;
  const loader = new WeightLoader(device, names.optionalPrefix, options);
  const layerLoader = new LayerLoader(loader, spec, format);

  const tableShape = { rows: [spec.vocabularySize], columns: spec.hiddenSize };
  const table = { modules: [names.tokens], bias: false };
  const { begins, ends } = spec.part ?? { begins: true, ends: true };
  const hasTable = begins || (ends && spec.tied);
  const tokens = hasTable ? loader.linear(table, tableShape, format).weight : null;
  const positions =
    begins && spec.positions.kind === "learned" && names.positions !== undefined
      ? loader.tensor(`${names.positions}.weight`, [spec.positions.rows, spec.hiddenSize])
      : null;
  const layers = spec.layers.map(({ feedForward }, index) =>
    layerLoader.layer(names.layer(index), feedForward),
  );
  const finalNorm = ends ? layerLoader.norm(names.finalNorm) : null;
  const tied = spec.tied && tokens !== null ? { weight: tokens } : null;
  const head = ends ? (tied ?? loader.linear(names.head, tableShape, format)) : null;
  return {
    format,
    tokens,
    positions,
    layers,
    finalNorm,
    head,
    parameters: loader.parameters,
  };
}

/** Loads one layer after another. */
class LayerLoader {
  readonly #loader: WeightLoader;
  readonly #spec: DecoderSpec;
  readonly #format: WeightFormat;

  constructor(loader: WeightLoader, spec: DecoderSpec, format: WeightFormat) {
    this.#loader = loader;
    this.#spec = spec;
    this.#format = format;
  }

  layer(names: LayerNames, feedForward: FeedForwardSpec): LayerWeights {
    const { hiddenSize, heads, headDim } = this.#spec;
    return {
      attentionNorm: this.norm(names.attentionNorm),
      qkv: this.#linear(names.qkv, this.#qkvRows(names), hiddenSize),
      queryNorm: this.#headNorm(names.queryNorm),
      keyNorm: this.#headNorm(names.keyNorm),
      attentionOutput: this.#linear(names.attentionOutput, [hiddenSize], heads * headDim),
      postAttentionNorm: this.#optionalNorm(names.postAttentionNorm),
      feedForwardNorm: this.#optionalNorm(names.feedForwardNorm),
      feedForward: this.#feedForward(names.feedForward, feedForward),
      postFeedForwardNorm: this.#optionalNorm(names.postFeedForwardNorm),
    };
  }

  norm(module: string): NormWeights {
    const { norm, hiddenSize } = this.#spec;
    const weight = this.#loader.tensor(`${module}.weight`, [hiddenSize]);
    if (norm.kind === "rms") return { ...norm, weight };
    return { ...norm, weight, bias: this.#loader.tensor(`${module}.bias`, [hiddenSize]) };
  }

  #optionalNorm(module: string | undefined): NormWeights | null {
    return module === undefined ? null : this.norm(module);
  }

  #headNorm(module: string | undefined): DeviceTensor | null {
    if (module === undefined) return null;
    return this.#loader.tensor(`${module}.weight`, [this.#spec.headDim]);
  }

  /** Three modules, or one that holds all three (Phi-3, GPT-2). */
  #qkvRows(names: LayerNames): number[] {
    const { heads, kvHeads, headDim } = this.#spec;
    const rows = [heads * headDim, kvHeads * headDim, kvHeads * headDim];
    return stackedRows(rows, names.qkv.modules.length);
  }

  #feedForward(names: FeedForwardNames, spec: FeedForwardSpec): FeedForwardWeights {
    const { hiddenSize } = this.#spec;
    if (names.kind === "dense") {
      const gated = spec.kind === "experts" || spec.gated;
      const rows = gated ? [spec.size, spec.size] : [spec.size];
      const inputRows = stackedRows(rows, names.input.modules.length);
      return {
        kind: "dense",
        input: this.#linear(names.input, inputRows, hiddenSize),
        output: this.#linear(names.output, [hiddenSize], spec.size),
      };
    }
    const experts = Array.from({ length: spec.kind === "experts" ? spec.experts : 0 }, (_, i) =>
      names.expert(i),
    );
    const router = { rows: [experts.length], columns: hiddenSize };
    return {
      kind: "experts",
      router: this.#loader.linear(names.router, router, routerFormatOf(this.#format)),
      gateUp: experts.map(
        ({ input }) => this.#linear(input, [spec.size, spec.size], hiddenSize).weight,
      ),
      down: experts.map(({ output }) => this.#linear(output, [hiddenSize], spec.size).weight),
    };
  }

  #linear(names: LayerNames["qkv"], rows: readonly number[], columns: number): LinearWeights {
    return this.#loader.linear(names, { rows, columns }, this.#format);
  }
}

/** `rows` as they are, or their sum where one module holds all parts. */
function stackedRows(rows: readonly number[], modules: number): number[] {
  if (modules === rows.length) return [...rows];
  return [rows.reduce((sum, count) => sum + count, 0)];
}
