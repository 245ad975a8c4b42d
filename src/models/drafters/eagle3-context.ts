/**
 * Keys and values of an EAGLE-3 for the tokens of steps. The network's entry of a token comes from
 * the token itself and the base's hidden states of the one before it:
 *
 *   key(q)   = rope(Ke . embedding(q) + Kh . hidden(q - 1))
 *   value(q) =      Ve . embedding(q) + Vh . hidden(q - 1)
 *
 * It is stored in the slot of token q, not of token q - 1 as other engines have it: so it depends
 * on the tokens up to its own, as all that blocks hold, and no token waits for the next one. What
 * the next token needs of this one is stored, too, since a step may begin behind any token:
 *
 *   layer   keys       values
 *   0       key(q)     value(q)
 *   1       unused     Kh . hidden(q)
 *   2       unused     Vh . hidden(q)
 *
 * Values are read by attention that sees one position. A query sees slots 1 to its own: token 0
 * follows no hidden state, and what slot 0 of layer 0 holds is never seen (`Eagle3`).
 */
import { assert } from "#base";
import type { Activation, Device, DeviceTensor, KvPool, WeightMatrix } from "#devices";
import type { StepInput } from "../step-input.ts";
import {
  type StagedGroup,
  type StagedSize,
  type StagedStep,
  StepStage,
  withContext,
} from "../step-stage.ts";
import type { Eagle3Spec } from "./eagle3-spec.ts";
import type { Eagle3Weights } from "./eagle3-weights.ts";
import type { KvDraftLimits } from "./kv-draft-network.ts";
import { ParentRows } from "./parent-rows.ts";

export interface Eagle3Parts {
  readonly device: Device;
  readonly spec: Eagle3Spec;
  readonly weights: Eagle3Weights;
  readonly limits: KvDraftLimits;
  /** [T, B] f32 each: `Decoder.tapped` of the base, for `Eagle3Spec.taps`. */
  readonly tapped: readonly DeviceTensor[];
}

/** Number of these so far: several may share a device, and their graphs need distinct keys. */
let contexts = 0;

/**
 * Fills the blocks of steps. Nothing is allocated after the constructor. A step of one token a
 * sequence is a CUDA graph where the device keeps graphs, padded as the base's is.
 */
export class Eagle3Context {
  readonly #parts: Eagle3Parts;
  readonly #buffers: Buffers;
  readonly #stage: StepStage;
  readonly #parents: ParentRows;
  /** [positions, rotaryDim] f32. */
  readonly #rope: DeviceTensor;
  readonly #name = `eagle3 context ${contexts++}`;
  /** The pool and `sampled` of the captured steps, and the number of changes of either. */
  #cache: KvPool | null = null;
  #sampled: DeviceTensor | null = null;
  #changes = 0;

  /** `rope`: of all positions that steps may have. Throws OUT_OF_MEMORY. */
  constructor(parts: Eagle3Parts, rope: DeviceTensor) {
    const { device, limits } = parts;
    this.#parts = parts;
    this.#rope = rope;
    this.#buffers = allocate(parts);
    const { stepTokensMax, stepSequencesMax: sequencesMax, blocksPerSequenceMax } = limits;
    const { blockTokens, treeTokensMax } = limits;
    const sizes = { stepTokensMax, sequencesMax, blocksPerSequenceMax, blockTokens };
    this.#stage = new StepStage(device, { ...sizes, logitRowsMax: 1 }, 1);
    this.#parents = new ParentRows({ stepTokensMax, sequencesMax, treeTokensMax });
  }

  /** [T, H] f32: the hidden states of the newest step's tokens, from the base's. */
  get hidden(): DeviceTensor {
    return this.#buffers.hidden;
  }

  /** Enqueues everything that a step stores. */
  fill(step: StepInput, cache: KvPool, sampled: DeviceTensor): void {
    const { device, limits } = this.#parts;
    const rowsMax = Math.min(limits.stepTokensMax, limits.stepSequencesMax);
    if (step.samplesAll !== true || step.sequences > rowsMax) {
      const { tokens, sequences, tokenSources } = step;
      const takes = tokenSources !== undefined;
      const staged = this.#stageStep(step, { tokens, sequences, takes, wantedRows: null });
      this.#run(staged, cache, sampled);
      return;
    }
    if (cache !== this.#cache || sampled !== this.#sampled) {
      this.#cache = cache;
      this.#sampled = sampled;
      this.#changes++;
    }
    const rows = device.paddedBatch(step.sequences, rowsMax);
    const size = { tokens: rows, sequences: rows, takes: true, wantedRows: null };
    const staged = this.#stageStep(step, size);
    const longest = this.#paddedContext(rows, step.contextLengthMax, cache);
    const padded = withContext(staged, longest);
    device.replay(`${this.#name} ${this.#changes} ${rows} ${longest}`, () => {
      this.#run(padded, cache, sampled);
    });
  }

  #paddedContext(sequences: number, contextTokens: number, cache: KvPool): number {
    const { device, weights, limits } = this.#parts;
    const contextTokensMax = limits.blocksPerSequenceMax * limits.blockTokens;
    const { format } = weights;
    return device.paddedContext({ sequences, contextTokens, contextTokensMax, cache, format });
  }

  #stageStep(step: StepInput, size: StagedSize): StagedStep {
    const { device } = this.#parts;
    const { parents, contexts } = this.#buffers;
    const { tables, ...rest } = step;
    const { treeMask: _, treeStarts: __, samplesAll: ___, wantedRows: ____, ...plain } = rest;
    const found = this.#parents.of(step, size);
    device.write(parents, found.parents.subarray(0, size.tokens));
    device.write(contexts, found.contexts.subarray(0, size.sequences));
    return this.#stage.stage({ ...plain, tables: tables.slice(0, 1) }, size);
  }

  #run(staged: StagedStep, cache: KvPool, sampled: DeviceTensor): void {
    const { device } = this.#parts;
    const [group] = staged.groups;
    assert(group !== undefined, "Cannot fill a step without block tables");
    const { tokens, sequences, tokenIds, tokenSources, tableValues: values } = staged;
    const { blockTables: out } = group.batch;
    device.spreadRows({ count: sequences, out, starts: group.tableStarts, values });
    if (tokenSources !== null) {
      device.takeTokens({ count: tokens, ids: tokenIds, sampled, sources: tokenSources });
    }
    this.#fuse(tokens);
    this.#store(staged, group, cache);
    this.#read(staged, group, cache);
    this.#combine(staged, group, cache);
  }

  /** One hidden state of each token, from those of several layers of the base. */
  #fuse(count: number): void {
    const { device, weights, tapped, spec } = this.#parts;
    const { normed, joined, fusionInput, hidden, hiddenInput } = this.#buffers;
    const isEach = spec.inputNorm === "each";
    const parts = tapped.map((x, place) => {
      const [out, norm] = [normed[place], weights.inputNorms[place]];
      if (!isEach || out === undefined || norm === undefined) return x;
      device.norm({ count, out, x, ...norm });
      return out;
    });
    let x = parts[0];
    assert(x !== undefined, "Cannot draft without hidden states of the base");
    for (const [place, right] of parts.slice(1).entries()) {
      const out = joined[place];
      assert(out !== undefined, "Cannot join hidden states: there is no room");
      device.joinRows({ count, out, left: x, right });
      x = out;
    }
    const [norm] = weights.inputNorms;
    if (spec.inputNorm === "joined" && norm !== undefined) {
      device.norm({ count, out: fusionInput, x, ...norm });
    } else device.convert({ count, out: fusionInput, x });
    device.linear({ count, out: hidden, x: fusionInput, ...weights.fusion });
    device.norm({ count, out: hiddenInput, x: hidden, ...weights.hiddenNorm });
  }

  /** Layers 1 and 2: what the next tokens need. */
  #store({ tokens: count, positions }: StagedStep, { slots }: StagedGroup, cache: KvPool): void {
    const { device, weights, spec } = this.#parts;
    const { hiddenInput: x, keyRows, valueRows, query } = this.#buffers;
    const { hiddenKeys, hiddenValues } = weights.context;
    device.linear({ count, out: keyRows, x, ...hiddenKeys });
    device.linear({ count, out: valueRows, x, ...hiddenValues });
    const places = { count, query, heads: spec.kvHeads, cache, positions, slots };
    device.ropeKvWrite({ ...places, qkv: keyRows, layer: 1 });
    device.ropeKvWrite({ ...places, qkv: valueRows, layer: 2 });
  }

  /** The same of the token before each sequence's first one; zeros where there is none. */
  #read({ sequences: count }: StagedStep, { batch }: StagedGroup, cache: KvPool): void {
    const { device, spec, limits } = this.#parts;
    const { noQuery, starts, contexts, earlier, toKeys, toValues, valueRows } = this.#buffers;
    const one = {
      sequences: count,
      ...{ queryStarts: starts, contextLengths: contexts, blockTables: batch.blockTables },
      ...{ queryLengthMax: 1, contextLengthMax: batch.contextLengthMax },
    };
    const { stepTokensMax, stepSequencesMax } = limits;
    const out = device.rows(valueRows, stepTokensMax, stepTokensMax + stepSequencesMax);
    const input = { count, query: noQuery, heads: spec.kvHeads, cache, batch: one, scale: 1 };
    for (const [layer, weight] of [toKeys, toValues].entries()) {
      device.pagedAttention({ ...input, out: earlier, window: 1, layer: 1 + layer });
      device.linear({ count, out, x: earlier, weight, accumulate: layer === 1 });
    }
  }

  /** Layer 0: keys and values that drafts see. */
  #combine(
    { tokens: count, tokenIds: ids, positions }: StagedStep,
    { slots }: StagedGroup,
    cache: KvPool,
  ): void {
    const { device, weights, spec } = this.#parts;
    const { merged, valueRows, parents, embedded, embeddedInput, query } = this.#buffers;
    device.gatherRows({ count, out: merged, x: valueRows, indices: parents });
    device.embed({ count, out: embedded, ids, table: weights.tokens });
    device.norm({ count, out: embeddedInput, x: embedded, ...weights.embeddingNorm });
    const { embedding } = weights.context;
    device.linear({ count, out: merged, x: embeddedInput, accumulate: true, ...embedding });
    device.ropeKvWrite({
      ...{ count, qkv: merged, query, heads: spec.kvHeads, cache, positions, slots, layer: 0 },
      rope: this.#rope,
      ...(weights.keyNorm !== null && { keyNorm: weights.keyNorm }),
      normEpsilon: spec.normEpsilon,
    });
  }
}

/**
 * Letters: `Eagle3Spec`; T and S of the base's steps, K columns of a key. Rows of 3 K columns are
 * what `ropeKvWrite` takes of K query columns: those and the keys are of no use in layers 1 and 2.
 */
interface Buffers {
  /** [T, B] f32 of each hidden state of the base, where each has a norm. */
  readonly normed: readonly DeviceTensor[];
  /** [T, 2 B], [T, 3 B] f32 and so on; the last one for a GEMM. */
  readonly joined: readonly DeviceTensor[];
  readonly fusionInput: Activation;
  /** [T, H] f32, and normalised for a GEMM. */
  readonly hidden: DeviceTensor;
  readonly hiddenInput: Activation;
  /** [T, 3 K] f32: hidden keys three times. */
  readonly keyRows: DeviceTensor;
  /** [T + S, 3 K] f32: hidden keys twice and hidden values, then those of earlier tokens. */
  readonly valueRows: DeviceTensor;
  /** [T, 3 K] f32: those of the tokens before, to which embeddings are added. */
  readonly merged: DeviceTensor;
  /** [T, H] f32, and for a GEMM. */
  readonly embedded: DeviceTensor;
  readonly embeddedInput: Activation;
  /** [T, K] f32: unused. */
  readonly query: DeviceTensor;
  /** [T] i32: rows of `valueRows`. */
  readonly parents: DeviceTensor;
  /** [S] i32: tokens before each sequence's first one. */
  readonly contexts: DeviceTensor;
  /** [S + 1] i32: 0, 1, 2 and so on. */
  readonly starts: DeviceTensor;
  /** [S, K] f32 zeros, and what attention reads. */
  readonly noQuery: DeviceTensor;
  readonly earlier: Activation;
  /** [3 K, K]: put hidden keys, or hidden values, to their columns of `valueRows`. */
  readonly toKeys: WeightMatrix;
  readonly toValues: WeightMatrix;
}

function allocate({ device, spec, weights, limits, tapped }: Eagle3Parts): Buffers {
  const { hiddenSize, baseHiddenSize, kvHeads, headDim, inputNorm } = spec;
  const { stepTokensMax: tokens, stepSequencesMax: sequences } = limits;
  const { format } = weights;
  const columns = kvHeads * headDim;
  const f32 = (...shape: number[]): DeviceTensor => device.allocate("f32", shape);
  const i32 = (...shape: number[]): DeviceTensor => device.allocate("i32", shape);
  const starts = i32(sequences + 1);
  device.write(
    starts,
    Int32Array.from({ length: sequences + 1 }, (_, place) => place),
  );
  const wide = (count: number): DeviceTensor => f32(tokens, count * baseHiddenSize);
  const input = (width: number): Activation => device.allocateActivation(format, tokens, width);
  return {
    normed: inputNorm === "each" ? tapped.map(() => wide(1)) : [],
    joined: tapped.slice(1).map((_, place) => wide(place + 2)),
    fusionInput: input(tapped.length * baseHiddenSize),
    ...{ hidden: f32(tokens, hiddenSize), hiddenInput: input(hiddenSize) },
    keyRows: f32(tokens, 3 * columns),
    valueRows: f32(tokens + sequences, 3 * columns),
    merged: f32(tokens, 3 * columns),
    ...{ embedded: f32(tokens, hiddenSize), embeddedInput: input(hiddenSize) },
    ...{ query: f32(tokens, columns), parents: i32(tokens), contexts: i32(sequences), starts },
    noQuery: f32(sequences, columns),
    earlier: device.allocateActivation("f32", sequences, columns),
    toKeys: placing(device, columns, [0, 1]),
    toValues: placing(device, columns, [2]),
  };
}

/** [3 K, K]: the identity in some of the three parts, zeros in the others. */
function placing(device: Device, columns: number, parts: readonly number[]): WeightMatrix {
  const values = new Float32Array(3 * columns * columns);
  for (const part of parts) {
    for (let row = 0; row < columns; row++) values[(part * columns + row) * columns + row] = 1;
  }
  const bytes = new Uint8Array(values.buffer);
  const source = {
    ...{ name: "identity", dtype: "f32" as const, shape: [3 * columns, columns] },
    ...{ bytes: () => bytes, discard: () => {} },
  };
  return device.pack([source], { format: "f32" });
}
