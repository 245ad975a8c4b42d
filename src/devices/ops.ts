/**
 * The ops of a step. Their definition is `reference/<op>.ts`; every device is tested against it.
 *
 * T tokens (rows) of this step · S sequences · R rows with logits · E embedding (hidden) size
 * H query heads · K kv heads · D head dim · F feed-forward size · V vocabulary · X experts
 * N blocks of the pool · P slots per block · M blocks per table
 *
 * "activation" as an output means: f32 tensor semantics, rounded to the format of the target.
 * Tensors may have more rows than a step uses; ops work on the first `rows` given by their inputs'
 * counts (`count`), so that buffers are allocated once for the largest step.
 */
import type {
  EncoderAttentionInput,
  MoveTokensInput,
  PagedAttentionInput,
  RotateHeadsInput,
} from "./attention-inputs.ts";
import type {
  Activation,
  DeviceTensor,
  KvLayerIndex,
  KvPool,
  WeightMatrix,
} from "./device-data.ts";
import type { RaceCandidatesInput, SelectBeamsInput, TraceBeamsInput } from "./drafter-ops.ts";

export type * from "./attention-inputs.ts";
export type * from "./drafter-ops.ts";

export type NormKind = "rms" | "layer";
export type ActivationKind = "silu" | "gelu" | "gelu-tanh" | "relu" | "tanh";

export interface TakeTokensInput {
  readonly count: number;
  /** [T] i32: overwritten where `sources` names a row of `sampled`. */
  readonly ids: DeviceTensor;
  /** [R] i32. */
  readonly sampled: DeviceTensor;
  /** [T] i32: indices into `sampled`; negative: the id stays as it is. */
  readonly sources: DeviceTensor;
}

export interface AcceptTreesInput {
  /** C. */
  readonly count: number;
  /** [T] i32: the tokens that a step computed, drafted ones among them. */
  readonly ids: DeviceTensor;
  /** [R] i32: what it sampled. */
  readonly sampled: DeviceTensor;
  /** [C] i32: where the drafted tokens of each tree begin in `ids`: those of its nodes 1, 2, ... */
  readonly firstIds: DeviceTensor;
  /** [C] i32: the element of `sampled` that was sampled behind its root, node 0; others follow. */
  readonly firstSampled: DeviceTensor;
  /** [C] i32: drafted nodes of each; 0: there are none, and `ids` is not read. */
  readonly drafted: DeviceTensor;
  /** P < 64, at least the most drafted nodes of a tree. */
  readonly columns: number;
  /** [C, P] i32: the parent of each tree's nodes 1, 2, ..., an earlier node. */
  readonly parents: DeviceTensor;
  /** [C] i32, out: what was sampled behind the last accepted node. */
  readonly roots: DeviceTensor;
  /** [C] i32, in and out: raised by the last accepted node, 0 where it is the root. */
  readonly nodes: DeviceTensor;
  /** [C] i32, in and out: raised by how many are accepted. */
  readonly depths: DeviceTensor;
}

export interface SpreadRowsInput {
  /** S. */
  readonly count: number;
  /** [S, M] i32: the first elements of each row are written, the rest is unchanged. */
  readonly out: DeviceTensor;
  /** [S + 1] i32: row s is values[starts[s]] to values[starts[s + 1] - 1], M elements at most. */
  readonly starts: DeviceTensor;
  /** i32. */
  readonly values: DeviceTensor;
}

export interface EmbedInput {
  readonly count: number;
  /** [T, E] f32. */
  readonly out: DeviceTensor;
  /** [T] i32, row numbers of `table` before `offset` is added. */
  readonly ids: DeviceTensor;
  /** [V, E]: packed (the token table, maybe the output layer too), or f32 tensor (positions). */
  readonly table: WeightMatrix | DeviceTensor;
  /** Multiplies the row (Gemma: sqrt(E)); 1 by default. */
  readonly scale?: number;
  /** Added to each id (OPT positions: 2). */
  readonly offset?: number;
  /** Adds to `out` instead of overwriting it. */
  readonly accumulate?: boolean;
}

export interface NormInput {
  readonly count: number;
  readonly kind: NormKind;
  /** [T, E] activation or f32 tensor. */
  readonly out: Activation | DeviceTensor;
  /** [T, E] f32. With `delta`, updated in place to x + delta before it is normalised. */
  readonly x: DeviceTensor;
  /** [T, E] f32, added to `x` first (the residual). */
  readonly delta?: DeviceTensor;
  /** [E] f32. */
  readonly weight: DeviceTensor;
  /** [E] f32, layer norm only. */
  readonly bias?: DeviceTensor;
  readonly epsilon: number;
  /** Added to the weight (Gemma stores weight - 1). 0 by default. */
  readonly weightOffset?: number;
}

export interface LinearInput {
  readonly count: number;
  /** [T, N] f32. */
  readonly out: DeviceTensor;
  /** [T, K], of the weight's format. */
  readonly x: Activation;
  readonly weight: WeightMatrix;
  /** [N] f32. */
  readonly bias?: DeviceTensor;
  /** Adds to `out` instead of overwriting it (the residual). */
  readonly accumulate?: boolean;
}

/** A linear and its activation at once: the input half of a feed-forward. */
export interface LinearActivateInput {
  readonly count: number;
  readonly kind: ActivationKind;
  /** [T, F]: act(x . weight^T + bias), or with `gated` act(gate) * up of it. */
  readonly out: Activation;
  /** [T, K], of the weight's format. */
  readonly x: Activation;
  /** [F, K], or with `gated` [2F, K]: gate rows, then up rows. */
  readonly weight: WeightMatrix;
  /** [F] or [2F] f32. */
  readonly bias?: DeviceTensor;
  readonly gated: boolean;
  /** [T, F], or with `gated` [T, 2F], f32: memory for the GEMM's result, undefined afterwards. */
  readonly scratch: DeviceTensor;
}

export interface ActivateInput {
  readonly count: number;
  readonly kind: ActivationKind;
  /** [T, F]. */
  readonly out: Activation;
  /** [T, F], or with `gated` [T, 2F]: gate first, up second; out = act(gate) * up. f32. */
  readonly x: DeviceTensor;
  readonly gated: boolean;
}

export interface ConvertInput {
  readonly count: number;
  readonly out: Activation;
  /** [T, E] f32. */
  readonly x: DeviceTensor;
}

export interface AddInput {
  readonly count: number;
  /** [T, E] f32, becomes x + delta, with `kind` x + act(delta). */
  readonly x: DeviceTensor;
  readonly delta: DeviceTensor;
  /** Applied to `delta`; absent: none. */
  readonly kind?: ActivationKind;
}

export interface RopeKvWriteInput extends KvLayerIndex {
  readonly count: number;
  /** [T, (H + 2K) * D] f32: queries, keys, values, before rope. */
  readonly qkv: DeviceTensor;
  /** [T, H * D] f32: queries after norm and rope. */
  readonly query: DeviceTensor;
  readonly heads: number;
  readonly cache: KvPool;
  /** [T] i32. */
  readonly positions: DeviceTensor;
  /** [T] i32: slot of each token's key and value. Negative: not stored. */
  readonly slots: DeviceTensor;
  /**
   * [positions, rotaryDim] f32: cosines in the first half of a row, sines in the second. Pairs are
   * (i, i + rotaryDim / 2); dimensions from rotaryDim on pass through. Absent: no rope.
   */
  readonly rope?: DeviceTensor;
  /** [D] f32 each: RMS norm of every query and key head before rope (Qwen3). */
  readonly queryNorm?: DeviceTensor;
  readonly keyNorm?: DeviceTensor;
  readonly normEpsilon?: number;
  /** The queries a second time, rotated as `PagedAttentionInput.sinks` reads them. */
  readonly sinkQuery?: SinkQueryOutput;
}

/**
 * Queries at their positions in a cache that keeps only sinks and a window: at their own position
 * while the cache has free slots, at its last place afterwards. Source: Xiao et al. 2023,
 * "Efficient streaming language models with attention sinks".
 */
export interface SinkQueryOutput {
  /** [T, H * D] f32: like `query`, rotated by the angles of min(position, positionMax). */
  readonly out: DeviceTensor;
  /** Last place of the cache: the window's length less one. */
  readonly positionMax: number;
}

export interface MixtureOfExpertsInput {
  readonly count: number;
  /** [T, E] f32: sum over the chosen experts of weight * down(act(gate x) * up x). */
  readonly out: DeviceTensor;
  /** [T, E], of the experts' format. */
  readonly x: Activation;
  /** [T, X] f32, from the router's linear. */
  readonly routerLogits: DeviceTensor;
  readonly expertsPerToken: number;
  /** Divide the chosen softmax weights by their sum. */
  readonly normalize: boolean;
  readonly kind: ActivationKind;
  /** X matrices [2F, E]: gate rows, then up rows. */
  readonly gateUp: readonly WeightMatrix[];
  /** X matrices [E, F]. */
  readonly down: readonly WeightMatrix[];
  readonly accumulate?: boolean;
}

export interface GatherRowsInput {
  readonly count: number;
  /** [R, E] f32. */
  readonly out: DeviceTensor;
  readonly x: DeviceTensor;
  /** [R] i32. */
  readonly indices: DeviceTensor;
}

export interface JoinRowsInput {
  /** R. */
  readonly count: number;
  /** [R, A + B] f32: of each row the left part, then the right part. */
  readonly out: DeviceTensor;
  /** [*, A] f32: row r of `out` takes row floor(r / leftRepeat). */
  readonly left: DeviceTensor;
  /** 1 by default. */
  readonly leftRepeat?: number;
  /** [*, B] f32. */
  readonly right: DeviceTensor;
  /** [R] i32: the row of `right` that each row takes; absent: row r takes row r. */
  readonly rightIndices?: DeviceTensor;
  /** Applied to the right part; absent: none. */
  readonly rightKind?: ActivationKind;
}

export interface MeanPoolInput {
  /** [S, E] f32. */
  readonly out: DeviceTensor;
  readonly x: DeviceTensor;
  /** [S + 1] i32. */
  readonly starts: DeviceTensor;
  readonly sequences: number;
  /** Divide each row by its Euclidean length. */
  readonly normalize: boolean;
}

export interface SoftcapInput {
  readonly count: number;
  /** [R, V] f32, becomes cap * tanh(x / cap). */
  readonly x: DeviceTensor;
  readonly cap: number;
}

/**
 * Edits of logits, sparse, in this order for every row: mask, bias, repetition, frequency and
 * presence penalties. Entries of row r are entryStarts[r] up to entryStarts[r + 1].
 */
export interface AdjustLogitsInput {
  readonly count: number;
  /** [R, V] f32; may be `logits` itself. */
  readonly out: DeviceTensor;
  readonly logits: DeviceTensor;
  /** [R + 1] i32. */
  readonly entryStarts: DeviceTensor;
  /** [entries] i32, unique within a row. */
  readonly entryTokens: DeviceTensor;
  /** [entries] f32: added first; -Infinity forbids the token. */
  readonly entryBias: DeviceTensor;
  /** [entries] i32: times generated so far; -1: in the prompt only (repetition penalty applies). */
  readonly entryCounts: DeviceTensor;
  /** [R] f32 each. Repetition 1, others 0: off. */
  readonly repetitionPenalty: DeviceTensor;
  readonly frequencyPenalty: DeviceTensor;
  readonly presencePenalty: DeviceTensor;
  /** [R, ceil(V / 32)] u32: bit set = allowed. Only rows with a nonzero flag are masked. */
  readonly allowed?: DeviceTensor;
  /** [R] i32 flags for `allowed`. */
  readonly allowedRows?: DeviceTensor;
}

/**
 * One token per row. Greedy (temperature 0): the first largest logit. Else: divide by temperature,
 * apply min_p, then top_k, then top_p (equal logits at the k-th place all stay; top_p goes by
 * falling probability, then rising id, and keeps the token that reaches p), and take the kept token
 * with the largest scaled logit + gumbelAt(seed, position, token), of equals the lowest id. Every
 * device computes these sums in f64 with the same bits, so that equal logits give equal tokens.
 */
export interface SampleInput {
  readonly count: number;
  /** [R, V] f32. */
  readonly logits: DeviceTensor;
  /** [R] i32. */
  readonly out: DeviceTensor;
  /** [R] f32. */
  readonly temperature: DeviceTensor;
  /** [R] i32, 0 = off. */
  readonly topK: DeviceTensor;
  /** [R] f32, 1 = off. */
  readonly topP: DeviceTensor;
  /** [R] f32, 0 = off. */
  readonly minP: DeviceTensor;
  /** [R, 2] u32: low, high. */
  readonly seeds: DeviceTensor;
  /** [R] i32: position of the token to be sampled. */
  readonly positions: DeviceTensor;
}

export interface LogprobsInput {
  readonly count: number;
  /** [R, V] f32. */
  readonly logits: DeviceTensor;
  /** [R] i32. */
  readonly tokens: DeviceTensor;
  /** [R] f32: log-softmax at `tokens`. */
  readonly chosen: DeviceTensor;
  /** [R] i32: 1 + number of tokens with a larger logit. */
  readonly ranks: DeviceTensor;
  /** k; 0: only `chosen` and `ranks`. */
  readonly topCount: number;
  /** [R, k] i32 and f32: best first, equal logits by rising id. */
  readonly topTokens?: DeviceTensor;
  readonly topLogprobs?: DeviceTensor;
}

/** The ops of a device. Each call is enqueued; inputs are read when it runs. */
export interface DeviceOps {
  /** ids[t] = sampled[sources[t]] where sources[t] >= 0. */
  takeTokens(input: TakeTokensInput): void;
  /**
   * Accepts of each tree the nodes whose token is what was sampled behind their parent, an accepted
   * one: ids[firstIds[c] + n - 1] = sampled[firstSampled[c] + parent]. With a the deepest of them,
   * the first of several, roots[c] = sampled[firstSampled[c] + a], nodes[c] += a, depths[c] += the
   * depth of a.
   */
  acceptTrees(input: AcceptTreesInput): void;
  /** The first elements of out[s] become values[starts[s]] to values[starts[s + 1] - 1]. */
  spreadRows(input: SpreadRowsInput): void;
  /** out[t] = scale * table[ids[t] + offset]. */
  embed(input: EmbedInput): void;
  /** Root-mean-square or layer norm of rows, with the residual added before. */
  norm(input: NormInput): void;
  /** out = x times the transposed weight, plus bias. */
  linear(input: LinearInput): void;
  /** out = act(x . weight^T + bias), or act(gate) * up of the two halves of x . weight^T + bias. */
  linearActivate(input: LinearActivateInput): void;
  /** out = act(x), or act(gate) * up. */
  activate(input: ActivateInput): void;
  /** out = x, rounded to the format of `out`. */
  convert(input: ConvertInput): void;
  /** x = x + delta, or x + act(delta). */
  add(input: AddInput): void;
  /** Rotates the first heads of rows by the angles of their positions. */
  rotateHeads(input: RotateHeadsInput): void;
  /** Rotates queries and keys, and writes keys and values to their slots. */
  ropeKvWrite(input: RopeKvWriteInput): void;
  /** out = softmax(scale * query . keys) . values, keys and values in blocks. */
  pagedAttention(input: PagedAttentionInput): void;
  /** Keys and values of all layers at slot moves[n][1] become those at moves[n][0], in order. */
  moveTokens(input: MoveTokensInput): void;
  /** The same within rows of this call: full attention inside each sequence. */
  encoderAttention(input: EncoderAttentionInput): void;
  /** The weighted sum of the outputs of each token's best experts. */
  mixtureOfExperts(input: MixtureOfExpertsInput): void;
  /** out[r] = x[indices[r]]. */
  gatherRows(input: GatherRowsInput): void;
  /** out[r] = left[floor(r / leftRepeat)], then right[rightIndices[r]] or act of it. */
  joinRows(input: JoinRowsInput): void;
  /** out[s] = mean of a sequence's rows. */
  meanPool(input: MeanPoolInput): void;
  /** x = cap * tanh(x / cap). */
  softcap(input: SoftcapInput): void;
  /** Masks, biases and penalties on rows of logits. */
  adjustLogits(input: AdjustLogitsInput): void;
  /** One token per row of logits. */
  sample(input: SampleInput): void;
  /** Log-softmax at chosen tokens, their ranks, and the likeliest tokens. */
  logprobs(input: LogprobsInput): void;
  /** How far each of a row's candidates is behind the winner of the race that sampling runs. */
  raceCandidates(input: RaceCandidatesInput): void;
  /** The likeliest continuations of each sequence's beams. */
  selectBeams(input: SelectBeamsInput): void;
  /** out[s, w] = the tokens of the beam that ends as beam w of sequence s, the first one first. */
  traceBeams(input: TraceBeamsInput): void;
}
