import type { ActivationKind, NormKind } from "#devices";

/**
 * A decoder as data: all differences between families, except the names of their weights
 * (`weight-names.ts`), which also define the placement of the norms.
 */
export interface DecoderSpec {
  /** The `model_type` it was made from. */
  readonly architecture: string;
  readonly hiddenSize: number;
  readonly heads: number;
  /** Divides `heads`: heads / kvHeads query heads share a key and a value. */
  readonly kvHeads: number;
  readonly headDim: number;
  readonly vocabularySize: number;
  /** Most positions that the model was trained for. */
  readonly contextTokensMax: number;
  readonly layers: readonly LayerSpec[];
  /** The layers are some of a decoder's. Absent: they are all of them. */
  readonly part?: DecoderPart;
  readonly norm: NormSpec;
  readonly positions: PositionSpec;
  /** Scores are scale * query . key. */
  readonly attentionScale: number;
  /** scores = cap * tanh(scores / cap); null: as they are. */
  readonly attentionSoftcap: number | null;
  /** RMS norm of each query and key head before rope. */
  readonly queryKeyNorm: boolean;
  /** Multiplies token embeddings. */
  readonly embeddingScale: number;
  /** logits = cap * tanh(logits / cap); null: as they are. */
  readonly finalSoftcap: number | null;
  /** The token table is the output layer too. */
  readonly tied: boolean;
  /** Tokens that end an output, as config.json has them. */
  readonly eosTokenIds: readonly number[];
}

/** Which ends of a decoder a part of it has. */
export interface DecoderPart {
  /** It embeds tokens; else its input is the hidden states of the part before. */
  readonly begins: boolean;
  /** It has the output layer; else its output is the hidden states of all rows. */
  readonly ends: boolean;
}

/** The properties that may differ from layer to layer. */
export interface LayerSpec {
  /** A query attends to this many last positions, its own included; null: all. */
  readonly window: number | null;
  readonly feedForward: FeedForwardSpec;
}

/** The feed-forward part of a layer: one network, or experts chosen by a router. */
export type FeedForwardSpec =
  | {
      readonly kind: "dense";
      /** F, rows of one input matrix. */
      readonly size: number;
      readonly activation: ActivationKind;
      /** act(gate) * up rather than act(up). */
      readonly gated: boolean;
    }
  | {
      readonly kind: "experts";
      /** F of one expert. Experts are gated. */
      readonly size: number;
      readonly experts: number;
      readonly expertsPerToken: number;
      /** The chosen experts' weights are divided by their sum. */
      readonly normalize: boolean;
      readonly activation: ActivationKind;
    };

/** All norms of a decoder are alike. */
export interface NormSpec {
  readonly kind: NormKind;
  readonly epsilon: number;
  /** Added to the stored weight (Gemma: 1). */
  readonly weightOffset: number;
}

/** How a model encodes positions: rotated queries and keys, or a table. */
export type PositionSpec =
  | RopeSpec
  | {
      readonly kind: "learned";
      /** Rows of the table. */
      readonly rows: number;
      /** The row of position 0 (OPT: 2). */
      readonly offset: number;
    };

/** Su et al. 2021, "RoFormer": position as a rotation of pairs of dimensions. */
export interface RopeSpec {
  readonly kind: "rope";
  /** Leading dimensions of a head that are rotated; even. */
  readonly rotaryDim: number;
  readonly theta: number;
  readonly scaling: RopeScaling;
}

/** How frequencies were stretched for longer contexts; names as in Hugging Face configs. */
export type RopeScaling =
  | { readonly kind: "default" }
  | { readonly kind: "linear"; readonly factor: number }
  | {
      readonly kind: "llama3";
      readonly factor: number;
      readonly lowFrequencyFactor: number;
      readonly highFrequencyFactor: number;
      readonly originalContextTokens: number;
    }
  | {
      readonly kind: "yarn";
      readonly factor: number;
      readonly betaFast: number;
      readonly betaSlow: number;
      /** Bounds of the ramp are whole dimensions. */
      readonly truncate: boolean;
      /** Multiplies cosines and sines. */
      readonly attentionFactor: number;
      readonly originalContextTokens: number;
    }
  | {
      readonly kind: "longrope";
      /** [rotaryDim / 2] divisors, for contexts up to the original one and beyond it. */
      readonly shortFactors: readonly number[];
      readonly longFactors: readonly number[];
      readonly attentionFactor: number;
      readonly originalContextTokens: number;
    };
