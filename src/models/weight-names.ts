/**
 * Names of a model's weights in its checkpoint. A *module* is a name without its `.weight` or
 * `.bias`. The optional norms that exist define how a layer is built:
 *
 *   sequential   attentionNorm, feedForwardNorm                 (most)
 *   parallel     attentionNorm alone; both branches read it     (Phi-1.5)
 *   sandwich     all four: each branch is normalised twice      (Gemma-2)
 */

/** Matrices that are stacked by rows into one, in this order. */
export interface LinearNames {
  readonly modules: readonly string[];
  readonly bias: boolean;
  /** Stored as [inputs, outputs] (GPT-2's Conv1D). */
  readonly transposed?: boolean;
}

/** Names of one layer. Absent norms do not exist; the existing ones define the wiring. */
export interface LayerNames {
  readonly attentionNorm: string;
  /** Rows: queries, keys, values. */
  readonly qkv: LinearNames;
  readonly queryNorm?: string;
  readonly keyNorm?: string;
  readonly attentionOutput: LinearNames;
  readonly postAttentionNorm?: string;
  readonly feedForwardNorm?: string;
  readonly feedForward: FeedForwardNames;
  readonly postFeedForwardNorm?: string;
}

/** The weights of a `FeedForwardSpec`. */
export type FeedForwardNames =
  | {
      readonly kind: "dense";
      /** Rows: gate, up; or up alone. */
      readonly input: LinearNames;
      readonly output: LinearNames;
    }
  | {
      readonly kind: "experts";
      readonly router: LinearNames;
      /** Of expert `index`: gate and up stacked, and down. */
      expert(index: number): { readonly input: LinearNames; readonly output: LinearNames };
    };

/** Names of a decoder's weights: modules, without `.weight` and `.bias`. */
export interface DecoderNames {
  /** Checkpoints of the bare model omit this prefix. */
  readonly optionalPrefix: string;
  /** Module of the token table. */
  readonly tokens: string;
  /** Module of the learned positions. */
  readonly positions?: string;
  layer(index: number): LayerNames;
  readonly finalNorm: string;
  /** The output layer; not read where it is tied to the token table. */
  readonly head: LinearNames;
}

/** One layer of an encoder. Its spec defines where the norms stand. */
export interface EncoderLayerNames {
  readonly qkv: LinearNames;
  readonly attentionOutput: LinearNames;
  /** Null: there is none (ModernBERT's first layer, which reads normalised embeddings). */
  readonly attentionNorm: string | null;
  /** Rows: gate, up; or up alone. */
  readonly input: LinearNames;
  readonly output: LinearNames;
  readonly outputNorm: string;
}

/** Names of a head that scores pairs. */
export interface ScoreHeadNames {
  readonly dense: LinearNames;
  readonly norm?: string;
  readonly output: LinearNames;
}

/** Names of an encoder's weights. */
export interface EncoderNames {
  readonly optionalPrefix: string;
  readonly tokens: string;
  /** Where positions are learned. */
  readonly positions?: string;
  /** Where there are token types. */
  readonly tokenTypes?: string;
  readonly embeddingNorm: string;
  layer(index: number): EncoderLayerNames;
  /** Behind all layers, where norms stand before the branches. */
  readonly finalNorm?: string;
  /** Where the spec has a head. */
  readonly head?: ScoreHeadNames;
}
