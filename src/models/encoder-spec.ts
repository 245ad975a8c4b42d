import type { ActivationKind } from "#devices";

/** A BERT-style encoder as data: learned positions, norms after each branch, no cache. */
export interface EncoderSpec {
  /** The `model_type` it was made from. */
  readonly architecture: string;
  readonly hiddenSize: number;
  readonly heads: number;
  readonly headDim: number;
  readonly feedForwardSize: number;
  readonly activation: ActivationKind;
  readonly layers: number;
  readonly vocabularySize: number;
  /** Rows of the table of positions. */
  readonly contextTokensMax: number;
  /** Rows of the table of token types; every token is of type 0. */
  readonly tokenTypes: number;
  readonly epsilon: number;
}
