/**
 * One step as plain data: typed arrays, numbers and strings, so that it can be cloned, and posted
 * to another process. It names what it means by number, and knows no sequence, request or grammar:
 *
 *   KV blocks        by id, in moves and block tables
 *   sampled tokens   of the newest step that sampled, by row, where the host has not read them
 *   disk jobs        by the block that each fills
 *   peer jobs        by their transfer and piece
 *
 * What the parameters of a sequence look back at stays on the host, which sends its effect: entries
 * of penalties, masks of grammars. So nothing is registered for a sequence, and nothing is left
 * behind by one that ended.
 *
 * The arrays are reused: a command is valid until the next one is built, and an executor that reads
 * it later copies them. Arrays may be longer than the step needs.
 *
 * T tokens · S sequences · M blocks of the longest table · R rows whose logits are read
 */
import type { CacheMoves } from "#kvcache";
import type { LogprobRequest, SamplingBatch } from "#sampling";

export interface StepCommand extends CacheMoves {
  /** Carried out first, before `moves`; null: there are none. */
  readonly tokenMoves: TokenMoves | null;
  /** T; 0: there are only moves, and all that follows is empty. */
  readonly tokens: number;
  /** S. */
  readonly sequences: number;
  /** [T]. */
  readonly tokenIds: Int32Array;
  /**
   * [T]: rows of the last sampled tokens that replace ids, or drafted ones behind them
   * (`LateChains.sourceOf`); -1: the id is given. Null: all are.
   */
  readonly tokenSources: Int32Array | null;
  /** [T], 0-based places of the tokens in their sequences; of a tree's nodes, by their depths. */
  readonly positions: Int32Array;
  /**
   * [T, W], with W = ceil(`CommandLimits.treeTokensMax` / 32): bit j of row t hides the j-th token
   * of its own sequence in this step from token t. Null: every sequence is a chain.
   */
  readonly treeMask: Uint32Array | null;
  /** Each row is a sequence of its own, some of them rows of one draft. */
  readonly rowsApart: boolean;
  /**
   * [S], where each row is a sequence of its own: the place in its sequence of the token that bit 0
   * of the row hides. Null: rows of a tree are one sequence, bit 0 hides its first one.
   */
  readonly treeStarts: Int32Array | null;
  /** [S + 1]: sequence s owns tokens queryStarts[s] up to queryStarts[s + 1]. */
  readonly queryStarts: Int32Array;
  /** [S]: tokens of each sequence in the cache when the step is done. */
  readonly contextLengths: Int32Array;
  /** Where keys and values are, for each group of layers that keeps the same positions. */
  readonly tables: readonly GroupTables[];
  /** Most tokens of one sequence in this step. */
  readonly queryLengthMax: number;
  /** Longest context. */
  readonly contextLengthMax: number;
  /** Sequences that need results of further rows, in the order of the rows. */
  readonly prompts: readonly PromptRows[];
  /**
   * [R]: rows whose logits are read, first those of `sampling`, then those of `searches`. One row
   * may occur several times. Null: all T rows, each of a sequence of its own, are sampled.
   */
  readonly logitRows: Int32Array | null;
  /** Null: no row is sampled. */
  readonly sampling: SamplingBatch | null;
  readonly searches: readonly RowSearch[];
}

/**
 * Keys and values of tokens that an earlier step computed as nodes of a tree: those that were
 * accepted come to lie behind each other.
 */
export interface TokenMoves {
  /** [G + 1]: group g owns moves starts[g] up to starts[g + 1]; groups touch different slots. */
  readonly starts: Int32Array;
  /** [N, 2]: slots, from and to. Those of one group are moved in order. */
  readonly moves: Int32Array;
}

/** The places of one group of layers. */
export interface GroupTables {
  /** [S, M]: block ids in the order of positions; entries behind a context are not read. */
  readonly blockTables: Int32Array;
  /** [T]: slot of each token's key and value. */
  readonly slots: Int32Array;
}

/** Rows of one sequence whose own results are needed, beside the logits of the last one. */
export interface PromptRows {
  readonly firstRow: number;
  /** Rows whose last hidden states are wanted; 0: none. */
  readonly hiddenCount: number;
  /** Rows whose logits are computed, for the results below; 0: none. */
  readonly logitCount: number;
  /** Whether these logits are wanted themselves. */
  readonly logits: boolean;
  /** Scores of given tokens; null: none. */
  readonly scores: PromptScores | null;
}

/** Log-probabilities of a prompt's tokens. */
export interface PromptScores {
  readonly wanted: LogprobRequest;
  /** The token that each of the first rows is scored against. */
  readonly tokens: Int32Array;
}

/** Rows whose likeliest tokens are wanted, and how many. */
export interface RowSearch {
  readonly candidates: number;
  /** Indices into `logitRows`, rising. */
  readonly rows: readonly number[];
}

/** The command without its tokens: only its moves are carried out. */
export function movesOnly(command: StepCommand): StepCommand {
  return {
    ...command,
    ...{ tokens: 0, sequences: 0, prompts: [], searches: [], sampling: null },
    logitRows: new Int32Array(0),
  };
}
