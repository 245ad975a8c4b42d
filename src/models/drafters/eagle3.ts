/**
 * Runs an EAGLE-3 on a device: chains of tokens behind each sequence. Source: Li et al. 2025,
 * "EAGLE-3: Scaling up inference acceleration of large language models via training-time test"
 * (arXiv 2503.01840).
 */
import type { Activation, AttentionBatch, Device, DeviceTensor, KvPool } from "#devices";
import { ropeTable } from "../rope.ts";
import { SOME_DRAW } from "./draft-draws.ts";
import { Eagle3Context, type Eagle3Parts } from "./eagle3-context.ts";
import {
  chainsMax,
  type DraftContext,
  type KvDraftLimits,
  type KvDraftNetwork,
  seesAll,
} from "./kv-draft-network.ts";
import type { StartedChains } from "./started-trees.ts";
import { TokenChain } from "./token-chain.ts";

/** Number of drafters so far: several may share a device, and their graphs need distinct keys. */
let drafters = 0;

/**
 * Drafts from keys and values that `Eagle3Context` keeps, one token of all chains at a time:
 *
 *   x      = the hidden state behind the token before: the base's, later the network's own
 *   q,k,v  = W . [norm(embedding of the token), norm(x)]
 *   x      = x + attention; x = x + feed-forward(norm(x))
 *   token  = the likeliest of head . norm(x)
 *
 * A token at position p sees positions 1 to p. Attention counts slots from 0 on, so while all are
 * seen the first drafted entry takes slot 0, which has none of use, in a copy of its block: the
 * order of keys is of no matter, since they are rotated by their positions already.
 *
 * Nothing is allocated after the constructor, no level of a chain waits for the host, and each is
 * a CUDA graph where the device keeps graphs.
 */
export class Eagle3 implements KvDraftNetwork {
  readonly limits: KvDraftLimits;
  readonly takesFirstSlot = true;
  readonly #parts: Eagle3Parts;
  readonly #context: Eagle3Context;
  readonly #chain: TokenChain;
  readonly #buffers: Buffers;
  readonly #input: ChainInput;
  /** [positions, rotaryDim] f32. */
  readonly #rope: DeviceTensor;
  readonly #name = `eagle3 ${drafters++}`;
  /** The pool of the captured levels, and how often it changed. */
  #cache: KvPool | null = null;
  #changes = 0;

  /** Throws OUT_OF_MEMORY. */
  constructor(parts: Eagle3Parts) {
    const { device, spec, limits, weights } = parts;
    const { contextTokensMax: positions, servedTokens, widthMax, lengthMax } = limits;
    const rowsMax = chainsMax(limits);
    this.limits = limits;
    this.#parts = parts;
    this.#rope = device.allocate("f32", [positions, spec.rope.rotaryDim]);
    // Angles go on behind the context that it was trained for: the base may have a longer one.
    const served = Math.min(spec.contextTokensMax, servedTokens);
    device.write(this.#rope, ropeTable(spec.rope, { positions, servedTokens: served }));
    this.#context = new Eagle3Context(parts, this.#rope);
    const { tokenMap } = weights;
    const vocabularySize = spec.draftVocabularySize;
    const sizes = { rowsMax, widthMax, lengthMax, vocabularySize };
    this.#chain = new TokenChain(device, { ...sizes, tokenMap });
    const blocks = Math.ceil((positions + lengthMax) / limits.blockTokens);
    this.#buffers = allocate(parts, blocks);
    this.#input = makeInput(rowsMax, blocks);
  }

  fill(...step: Parameters<KvDraftNetwork["fill"]>): void {
    this.#context.fill(...step);
  }

  chains(contexts: readonly DraftContext[], cache: KvPool): StartedChains {
    const lengths = contexts.map(({ length }) => length);
    const levels = Math.max(...lengths);
    this.#chain.begin(contexts);
    const count = this.#parts.device.paddedBatch(contexts.length, chainsMax(this.limits));
    this.#begin(contexts, count);
    for (let level = 0; level < levels; level++) {
      const longest = this.#writeLevel(contexts, level, count);
      this.#replay(level, { count, longest, cache });
    }
    return this.#chain.end(lengths);
  }

  runSizes(cache: KvPool): void {
    const { device } = this.#parts;
    const { widthMax, contextTokensMax, lengthMax } = this.limits;
    const rowsMax = chainsMax(this.limits);
    const { places } = this.#buffers;
    device.write(places.slots, new Int32Array(rowsMax).fill(-1));
    device.write(places.contextLengths, new Int32Array(rowsMax).fill(1));
    const counts = new Set<number>();
    for (let count = 1; count < 2 * rowsMax; count *= 2) {
      counts.add(device.paddedBatch(Math.min(count, rowsMax), rowsMax));
    }
    for (const count of counts) {
      const pad = (tokens: number) => this.#padded(count, tokens, cache);
      for (const longest of new Set([1, 2048, 8192, contextTokensMax + lengthMax].map(pad))) {
        for (const draw of [null, SOME_DRAW]) {
          this.#chain.begin(Array.from({ length: rowsMax }, () => ({ rank: widthMax - 1, draw })));
          for (let level = 0; level < lengthMax; level++) {
            this.#replay(level, { count, longest, cache });
          }
        }
      }
    }
  }

  /** Roots, tables, and the base's hidden states behind the tokens before the roots. */
  #begin(contexts: readonly DraftContext[], padded: number): void {
    const { device } = this.#parts;
    const { roots, rows, places, states, tableStarts: starts, tableValues: values } = this.#buffers;
    const { ints, tables } = this.#input;
    const write = (tensor: DeviceTensor, of: (context: DraftContext) => number): void => {
      ints.fill(0, contexts.length, padded);
      contexts.forEach((context, row) => {
        ints[row] = of(context);
      });
      device.write(tensor, ints.subarray(0, padded));
    };
    write(roots, ({ root }) => root);
    write(rows, ({ row }) => row);
    let end = 0;
    const ends = contexts.map(({ table }) => {
      tables.set(table, end);
      end += table.length;
      return end;
    });
    ints.fill(end, 0, padded + 1);
    ints.set([0, ...ends]);
    device.write(starts, ints.subarray(0, padded + 1));
    device.write(values, tables.subarray(0, end));
    device.spreadRows({ count: padded, out: places.blockTables, starts, values });
    const [out] = states;
    device.gatherRows({ count: padded, out, x: this.#context.hidden, indices: rows });
  }

  /** Where a level's entries go, and what they see. Returns the longest context. */
  #writeLevel(contexts: readonly DraftContext[], level: number, padded: number): number {
    const { device } = this.#parts;
    const { blockTokens, contextTokensMax } = this.limits;
    const { places } = this.#buffers;
    const { positions, slots, contextLengths } = this.#input;
    let longest = 0;
    positions.fill(0, contexts.length, padded);
    slots.fill(-1, contexts.length, padded);
    contextLengths.fill(0, contexts.length, padded);
    contexts.forEach(({ position, length, table }, row) => {
      // A shorter chain computes its last token again.
      const ahead = Math.min(level, length - 1);
      const shifted = seesAll(this.limits, position);
      const place = shifted ? placeOf(position, ahead) : position + ahead;
      const tokens = position + ahead + (shifted ? 0 : 1);
      const block = table[Math.floor(place / blockTokens)] ?? 0;
      positions[row] = Math.min(position + ahead, contextTokensMax - 1);
      slots[row] = block * blockTokens + (place % blockTokens);
      contextLengths[row] = tokens;
      longest = Math.max(longest, tokens);
    });
    device.write(places.positions, positions.subarray(0, padded));
    device.write(places.slots, slots.subarray(0, padded));
    device.write(places.contextLengths, contextLengths.subarray(0, padded));
    return longest;
  }

  /** Runs a level, as a CUDA graph where the device keeps graphs. */
  #replay(level: number, { count, longest, cache }: LevelRun): void {
    if (cache !== this.#cache) {
      this.#cache = cache;
      this.#changes++;
    }
    const padded = this.#padded(count, longest, cache);
    const chosen = `${level} ${this.#chain.kind}`;
    const key = `${this.#name} ${this.#changes} ${chosen} ${count} ${padded}`;
    this.#parts.device.replay(key, () => this.#run(level, { count, longest: padded, cache }));
  }

  #padded(sequences: number, contextTokens: number, cache: KvPool): number {
    const { device, weights } = this.#parts;
    const { contextTokensMax: most, lengthMax } = this.limits;
    const contextTokensMax = most + lengthMax;
    const { format } = weights;
    return device.paddedContext({ sequences, contextTokens, contextTokensMax, cache, format });
  }

  /** One token of each chain, and what follows it. */
  #run(level: number, { count, longest, cache }: LevelRun): void {
    const { device, weights, spec } = this.#parts;
    const { states, embedded, embeddedInput, hiddenInput, roots } = this.#buffers;
    const ids = level === 0 ? roots : this.#chain.level(level - 1, count);
    device.embed({ count, out: embedded, ids, table: weights.tokens });
    device.norm({ count, out: embeddedInput, x: embedded, ...weights.embeddingNorm });
    // The other one of the two states is free for what is read next.
    const [state, other] = level % 2 === 0 ? states : ([states[1], states[0]] as const);
    let x = state;
    if (spec.normBeforeResidual) {
      x = this.#buffers.normed;
      device.norm({ count, out: x, x: state, ...weights.hiddenNorm });
      device.convert({ count, out: hiddenInput, x });
    } else device.norm({ count, out: hiddenInput, x: state, ...weights.hiddenNorm });
    this.#attend({ count, longest, cache }, x);
    this.#feedForward(count, x);
    this.#predict(level, count, { x, next: other });
  }

  #attend({ count, longest, cache }: LevelRun, x: DeviceTensor): void {
    const { device, weights, spec } = this.#parts;
    const { embeddedInput, hiddenInput, qkv, query, attended, places } = this.#buffers;
    const { embedding, hidden } = weights.attention;
    const { heads, headDim, normEpsilon } = spec;
    device.linear({ count, out: qkv, x: embeddedInput, ...embedding });
    device.linear({ count, out: qkv, x: hiddenInput, accumulate: true, ...hidden });
    const { positions, slots, ...tables } = places;
    device.ropeKvWrite({
      ...{ count, qkv, query, heads, cache, positions, slots, layer: 0 },
      rope: this.#rope,
      ...(weights.queryNorm !== null && { queryNorm: weights.queryNorm }),
      ...(weights.keyNorm !== null && { keyNorm: weights.keyNorm }),
      normEpsilon,
    });
    const { streaming } = this.limits;
    const batch: AttentionBatch = {
      ...{ ...tables, sequences: count, queryLengthMax: 1, contextLengthMax: longest },
    };
    device.pagedAttention({
      ...{ count, out: attended, query, heads, cache, batch, layer: 0 },
      scale: headDim ** -0.5,
      ...(streaming !== null && { window: streaming.window }),
    });
    device.linear({ count, out: x, x: attended, accumulate: true, ...weights.attentionOutput });
  }

  #feedForward(count: number, x: DeviceTensor): void {
    const { device, weights, spec } = this.#parts;
    const { hiddenInput, activated, scratch } = this.#buffers;
    const { input, output } = weights.feedForward;
    device.norm({ count, out: hiddenInput, x, ...weights.feedForwardNorm });
    const activate = { kind: spec.activation, gated: true, out: activated, scratch };
    device.linearActivate({ count, x: hiddenInput, ...input, ...activate });
    device.linear({ count, out: x, x: activated, accumulate: true, ...output });
  }

  /** The likeliest token, and `next`: what the next level begins at. */
  #predict(level: number, count: number, { x, next }: Record<"x" | "next", DeviceTensor>): void {
    const { device, weights, spec } = this.#parts;
    const { hiddenInput, logits, all } = this.#buffers;
    if (spec.normOutput) {
      device.norm({ count, out: next, x, ...weights.finalNorm });
      device.convert({ count, out: hiddenInput, x: next });
    } else {
      device.gatherRows({ count, out: next, x, indices: all });
      device.norm({ count, out: hiddenInput, x, ...weights.finalNorm });
    }
    device.linear({ count, out: logits, x: hiddenInput, ...weights.head });
    this.#chain.choose(level, count, logits);
  }
}

/** Which slot of a sequence its drafted entry takes, all of which are seen: see `Eagle3`. */
function placeOf(position: number, ahead: number): number {
  return ahead === 0 ? 0 : position + ahead - 1;
}

interface LevelRun {
  readonly count: number;
  /** Tokens of the longest context. */
  readonly longest: number;
  readonly cache: KvPool;
}

/** Letters: `Eagle3Spec`; S chains, M blocks of a table, Q and K columns of query and key. */
interface Buffers {
  /** [S] i32 each; `all`: 0, 1, 2 and so on. */
  readonly roots: DeviceTensor;
  readonly rows: DeviceTensor;
  readonly all: DeviceTensor;
  /** [S + 1] and [S * M] i32: tables of blocks, one behind the other. */
  readonly tableStarts: DeviceTensor;
  readonly tableValues: DeviceTensor;
  /** Of a level's entries, with all that `AttentionBatch` names. */
  readonly places: Readonly<Record<"positions" | "slots", DeviceTensor>> &
    Pick<AttentionBatch, "queryStarts" | "contextLengths" | "blockTables">;
  /** [S, H] f32: of even and odd levels. */
  readonly states: readonly [DeviceTensor, DeviceTensor];
  /** [S, H] f32: the residual, where it begins normalised. */
  readonly normed: DeviceTensor;
  /** [S, H] f32, and for GEMMs. */
  readonly embedded: DeviceTensor;
  readonly embeddedInput: Activation;
  readonly hiddenInput: Activation;
  /** [S, Q + 2 K], [S, Q] f32, and for a GEMM. */
  readonly qkv: DeviceTensor;
  readonly query: DeviceTensor;
  readonly attended: Activation;
  /** [S, F] for a GEMM, and [S, 2 F] f32. */
  readonly activated: Activation;
  readonly scratch: DeviceTensor;
  /** [S, draft vocabulary] f32. */
  readonly logits: DeviceTensor;
}

function allocate({ device, spec, weights, limits }: Eagle3Parts, blocks: number): Buffers {
  const { hiddenSize, heads, kvHeads, headDim, feedForwardSize, draftVocabularySize } = spec;
  const rows = chainsMax(limits);
  const f32 = (columns: number): DeviceTensor => device.allocate("f32", [rows, columns]);
  const i32 = (...shape: number[]): DeviceTensor => device.allocate("i32", shape);
  const input = (width: number): Activation =>
    device.allocateActivation(weights.format, rows, width);
  return {
    ...{ roots: i32(rows), rows: i32(rows), all: counting(device, rows) },
    ...{ tableStarts: i32(rows + 1), tableValues: i32(rows * blocks) },
    places: {
      ...{ positions: i32(rows), slots: i32(rows), contextLengths: i32(rows) },
      ...{ queryStarts: counting(device, rows + 1), blockTables: i32(rows, blocks) },
    },
    states: [f32(hiddenSize), f32(hiddenSize)],
    ...{ normed: f32(hiddenSize), embedded: f32(hiddenSize) },
    ...{ embeddedInput: input(hiddenSize), hiddenInput: input(hiddenSize) },
    ...{ qkv: f32((heads + 2 * kvHeads) * headDim), query: f32(heads * headDim) },
    attended: input(heads * headDim),
    ...{ activated: input(feedForwardSize), scratch: f32(2 * feedForwardSize) },
    logits: f32(draftVocabularySize),
  };
}

/** [count] i32: 0, 1, 2 and so on. */
function counting(device: Device, count: number): DeviceTensor {
  const tensor = device.allocate("i32", [count]);
  device.write(
    tensor,
    Int32Array.from({ length: count }, (_, place) => place),
  );
  return tensor;
}

/** What the host writes of a level. [S] each. */
interface ChainInput {
  /** [S + 1]. */
  readonly ints: Int32Array;
  readonly positions: Int32Array;
  readonly slots: Int32Array;
  readonly contextLengths: Int32Array;
  /** [S * M]: one behind the other. */
  readonly tables: Int32Array;
}

function makeInput(sequences: number, blocks: number): ChainInput {
  const ints = (length = sequences): Int32Array => new Int32Array(length);
  return {
    ...{ ints: ints(sequences + 1), positions: ints(), slots: ints(), contextLengths: ints() },
    tables: ints(sequences * blocks),
  };
}
