/** Where the keys and values of one group of layers are. */
export interface StepTables {
  /** [T]: slot of each token's key and value; negative: not stored. */
  readonly slots: Int32Array;
  /** [S, M], with M = `DecoderLimits.blocksPerSequenceMax`; unused entries are not read. */
  readonly blockTables: Int32Array;
}

/**
 * Input of one step, as plain arrays. Arrays may be longer than a step uses, so that an engine
 * reuses the same ones.
 */
export interface StepInput {
  /** T. */
  readonly tokens: number;
  /** S. */
  readonly sequences: number;
  /** [T]. */
  readonly tokenIds: Int32Array;
  /**
   * [T]: elements of `sampled` of `Decoder.stage`, the last sampled tokens and drafted ones, that
   * replace ids; negative: the id is given. Absent: all are.
   */
  readonly tokenSources?: Int32Array;
  /** [T], 0-based places of the tokens in their sequences. */
  readonly positions: Int32Array;
  /** [S + 1]: sequence s owns tokens queryStarts[s] up to queryStarts[s + 1]. */
  readonly queryStarts: Int32Array;
  /** [S]: tokens of each sequence in the cache when the step is done. */
  readonly contextLengths: Int32Array;
  /** By group of layers (`KvLayout.groups`): where keys and values are. */
  readonly tables: readonly StepTables[];
  /** Most tokens of one sequence in this step. */
  readonly queryLengthMax: number;
  /** Longest context. */
  readonly contextLengthMax: number;
  /**
   * Every sequence has one token in this step, and its logits are wanted: `Decoder.forward`
   * computes them, too. False by default.
   */
  readonly samplesAll?: boolean;
  /**
   * Rows that `Decoder.hidden` and `Decoder.logits` may be called for, each once; both are fastest
   * when called for all in this order. Absent: any row, as in a step with `samplesAll`, and in one
   * that wants more than `DecoderLimits.logitRowsMax`.
   */
  readonly wantedRows?: Int32Array;
  /**
   * [T, W], with W = ceil(`DecoderLimits.treeTokensMax` / 32): bit j of row t hides the j-th
   * token of its own sequence in this step from token t. Absent: causal.
   */
  readonly treeMask?: Uint32Array;
  /** Each row is a sequence of its own, some of them rows of one draft. Default: false. */
  readonly rowsApart?: boolean;
  /**
   * [S], beside a mask, where the rows of trees are sequences of their own: the place in its
   * sequence of the token that bit 0 of the row hides. Absent: rows of a tree are one sequence.
   */
  readonly treeStarts?: Int32Array;
}
