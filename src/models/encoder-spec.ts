import type { ActivationKind } from "#devices";
import type { RopeSpec } from "./decoder-spec.ts";

/** An encoder as data: every token sees tokens on both sides, and there is no cache. */
export interface EncoderSpec {
  /** The `model_type` it was made from. */
  readonly architecture: string;
  readonly hiddenSize: number;
  readonly heads: number;
  readonly headDim: number;
  readonly feedForwardSize: number;
  readonly activation: ActivationKind;
  /** act(gate) * up rather than act(up). */
  readonly gated: boolean;
  readonly layers: readonly EncoderLayerSpec[];
  readonly vocabularySize: number;
  /** Most tokens of a text. */
  readonly contextTokensMax: number;
  readonly positions: EncoderPositions;
  /** Rows of the table of token types; 0: there is none. */
  readonly tokenTypes: number;
  readonly epsilon: number;
  /** Norms have biases. */
  readonly normBias: boolean;
  /** Norms stand behind each branch (BERT), or before it and behind all layers (ModernBERT). */
  readonly norms: "behind" | "before";
  /** What scores a pair of texts; null: the model has no such head. */
  readonly head: ScoreHeadSpec | null;
}

/** The properties that may differ from layer to layer. */
export interface EncoderLayerSpec {
  /** A token sees those at most so many positions away, on either side; null: all. */
  readonly reach: number | null;
  /** Queries and keys are rotated; null: they are not. */
  readonly rope: RopeSpec | null;
}

/** Where an encoder's positions come from. */
export type EncoderPositions =
  | {
      readonly kind: "learned";
      /** Rows of the table. */
      readonly rows: number;
      /**
       * RoBERTa's: rows up to this token's id are not for text, and the token itself has the row of
       * its id. Null: position 0 has row 0.
       */
      readonly paddingId: number | null;
    }
  | { readonly kind: "rope" };

/** A dense layer with an activation over a text's pooled rows, and one output. */
export interface ScoreHeadSpec {
  readonly pooling: "cls" | "mean";
  readonly activation: ActivationKind;
  /** A norm behind the activation. */
  readonly norm: boolean;
  readonly denseBias: boolean;
}
