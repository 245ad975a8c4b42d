/**
 * Runs a ReDrafter on a device: beams of tokens that are likely to follow one hidden state of the
 * base. Source: Cheng et al. 2024, "Recurrent Drafter for Fast Speculative Decoding"
 * (arXiv 2403.09919), and apple/ml-recurrent-drafter for the exact network.
 */
import { assert, TREE_NODES_MAX } from "#base";
import type { DeviceTensor, LateRead } from "#devices";
import { type BranchDraw, DraftDraws } from "./draft-draws.ts";
import type {
  BranchShape,
  BranchWish,
  DeviceRoots,
  DraftNetwork,
  DraftNetworkLimits,
} from "./draft-network.ts";
import {
  allocateReDrafter,
  type ReDrafterBuffers,
  type ReDrafterParts,
} from "./redrafter-buffers.ts";
import { branchNodes, levelStride, type StartedTrees, startedTrees } from "./started-trees.ts";

/** Number of drafters so far: several may share a device, and their graphs need distinct keys. */
let drafters = 0;

/**
 * Drafts for all sequences of a step at once. Each of L levels embeds the newest token of each
 * beam, advances its state, predicts what follows, and keeps the W best beams of each sequence:
 *
 *   state = silu([embedding, state before] . recurrence)     (or their sum)
 *   x     = [hidden state, state]; x += silu(x . block)      for each block
 *   beams = the W largest of score + log_softmax(x . head)
 *
 * Of a sequence that is sampled, the likeliest tokens race with the noise that the model samples
 * with, and a token is worth by how much it is behind the winner: the first beam is what the
 * model would sample, were its distribution the network's.
 *
 * Nothing is kept of a sequence between calls. Nothing is allocated after the constructor, and the
 * levels of one shape run as one CUDA graph where the device keeps graphs.
 */
export class ReDrafter implements DraftNetwork {
  readonly parameters: number;
  readonly #parts: ReDrafterParts;
  readonly #buffers: ReDrafterBuffers;
  readonly #draws: DraftDraws;
  readonly #name = `redrafter ${drafters++}`;

  /** Throws OUT_OF_MEMORY. */
  constructor(parts: ReDrafterParts) {
    const { spec, limits, weights } = parts;
    assert(
      limits.widthMax <= spec.draftVocabularySize,
      `Cannot draft ${limits.widthMax} beams: the draft vocabulary has fewer tokens`,
    );
    this.#parts = parts;
    this.#buffers = allocateReDrafter(parts);
    this.#draws = new DraftDraws(parts.device, limits.sequencesMax);
    this.parameters = weights.parameters;
  }

  get limits(): DraftNetworkLimits {
    return this.#parts.limits;
  }

  /**
   * Beams of each sequence, the likeliest first: [S][W][L] tokens. `hidden`: [S, H] f32, the hidden
   * states after the final norm that predicted the roots; it is read before this returns. `roots`:
   * [S], the newest token of each sequence. `draws`: of each sequence, null or absent where the
   * likeliest are wanted.
   */
  async draft(
    hidden: DeviceTensor,
    roots: Int32Array,
    wish: BeamWish,
  ): Promise<readonly (readonly Int32Array[])[]> {
    const { width, length } = wish;
    const read = this.#enqueue({ count: roots.length, hidden, roots }, wish);
    const found = await read.take();
    return Array.from({ length: roots.length }, (_, sequence) =>
      Array.from({ length: width }, (_, beam) => {
        const first = (sequence * width + beam) * length;
        return found.slice(first, first + length);
      }),
    );
  }

  /** All sequences are drafted for at the largest shape; each gets its first beams, cut. */
  async branches(
    hidden: DeviceTensor,
    roots: Int32Array,
    wishes: readonly BranchWish[],
  ): Promise<readonly (readonly Int32Array[])[]> {
    const beams = await this.draft(hidden, roots, largestOf(wishes));
    return wishes.map((wish, place) => {
      const own = (beams[place] ?? []).slice(0, wish.width);
      return own.map((beam) => beam.subarray(0, wish.length));
    });
  }

  /** The same beams beside each other, joined at the root alone. */
  trees(
    hidden: DeviceTensor,
    roots: Int32Array | DeviceRoots,
    wishes: readonly BranchWish[],
  ): StartedTrees {
    const whole = largestOf(wishes);
    const { width, length } = whole;
    const count = wishes.length;
    const read = this.#enqueue({ count, hidden, roots }, whole);
    const nodes = wishes.map((wish) => branchNodes(wish, TREE_NODES_MAX));
    const placeOf = (tree: number, node: number): number => {
      const own = wishes[tree]?.length ?? 1;
      const beam = tree * width + Math.floor((node - 1) / own);
      return beam * length + ((node - 1) % own);
    };
    const elements = { tokens: this.#buffers.beams, count: count * width * length };
    return startedTrees({ ...elements, read, nodes, placeOf });
  }

  /** Enqueues all levels, and the read of the beams: [S, W, L]. */
  #enqueue({ count, hidden, roots }: BeamStart, { width, length, draws = [] }: BeamWish): LateRead {
    const { device, limits } = this.#parts;
    const { context, roots: ids, rows, levels, beams } = this.#buffers;
    assert(
      count > 0 && count <= limits.sequencesMax,
      `Cannot draft for ${count} sequences: at most ${limits.sequencesMax} fit`,
    );
    assert(
      width > 0 && width <= limits.widthMax && length > 0 && length <= limits.lengthMax,
      `Cannot draft ${width} beams of ${length}: at most ${limits.widthMax} of ` +
        `${limits.lengthMax} fit`,
    );
    device.gatherRows({ count, out: context, x: hidden, indices: rows });
    const isKnown = roots instanceof Int32Array;
    if (isKnown) device.write(ids, roots);
    else device.takeTokens({ count, ids, sampled: roots.tokens, sources: rows });
    const sequences = device.paddedBatch(count, limits.sequencesMax);
    const draw = this.#draws.write(draws, isKnown ? undefined : roots.positions);
    device.replay(`${this.#name} ${sequences} ${width} ${length} ${draw}`, () => {
      for (let level = 0; level < length; level++)
        this.#runLevel(level, { sequences, width, draw });
      const stride = levelStride(sequences * width);
      device.traceBeams({ count: sequences, width, length, stride, levels, out: beams });
    });
    return device.readLater(device.rows(beams, 0, count * width * length));
  }

  #runLevel(level: number, { sequences, width, draw }: LevelShape): void {
    const before = level === 0 ? 1 : width;
    const count = sequences * before;
    const last = level === 0 ? null : this.#level(level - 1, sequences, width);
    this.#advance(count, last);
    this.#predict(count, before);
    this.#select(level, { sequences, width, draw });
  }

  /** The next state of each beam, from its newest token and the state of the beam it follows. */
  #advance(count: number, last: Level | null): void {
    const { device, embeddings, weights } = this.#parts;
    const { roots, embedded, state, sum, noState, noRows, joined, joinedInput } = this.#buffers;
    device.embed({ count, out: embedded, ids: last?.tokens ?? roots, table: embeddings });
    const right = last === null ? noState : state;
    const rightIndices = last?.parents ?? noRows;
    if (weights.recurrence === null) {
      // Beams may share a parent: their states are gathered before any of them is overwritten.
      device.gatherRows({ count, out: sum, x: right, indices: rightIndices });
      device.add({ count, x: sum, delta: embedded });
      device.gatherRows({ count, out: state, x: sum, indices: this.#buffers.rows });
      return;
    }
    device.joinRows({
      ...{ count, out: joined, left: embedded, right, rightIndices },
      rightKind: "silu",
    });
    device.convert({ count, out: joinedInput, x: joined });
    device.linear({ count, out: state, x: joinedInput, ...weights.recurrence });
  }

  /** Logits behind each beam. `before`: beams of each sequence. */
  #predict(count: number, before: number): void {
    const { device, weights } = this.#parts;
    const { context, state, joined, joinedInput, projected, exitInput, delta, logits } =
      this.#buffers;
    device.joinRows({
      ...{ count, out: joined, left: context, leftRepeat: before, right: state },
      ...(weights.recurrence !== null && { rightKind: "silu" as const }),
    });
    let x = joined;
    if (weights.projection !== null) {
      device.convert({ count, out: joinedInput, x });
      device.linear({ count, out: projected, x: joinedInput, ...weights.projection });
      x = projected;
    }
    for (const block of weights.blocks) {
      device.convert({ count, out: exitInput, x });
      device.linear({ count, out: delta, x: exitInput, ...block });
      device.add({ count, x, delta, kind: "silu" });
    }
    device.convert({ count, out: exitInput, x });
    device.linear({ count, out: logits, x: exitInput, weight: weights.head });
  }

  /** The best beams of each sequence one token later. */
  #select(level: number, { sequences, width, draw }: LevelShape): void {
    const { device, weights } = this.#parts;
    const { logits, given, chosen, ranks, scores } = this.#buffers;
    const before = level === 0 ? 1 : width;
    const count = sequences * before;
    const top = draw ? this.#buffers.raced : this.#buffers.top;
    const topTokens = device.rows(top.tokens, 0, count);
    const topLogprobs = device.rows(top.logprobs, 0, count);
    const tokenMap = weights.tokenMap === null ? {} : { tokenMap: weights.tokenMap };
    device.logprobs({
      ...{ count, logits, tokens: given, chosen, ranks },
      ...{ topCount: top.count, topTokens, topLogprobs },
    });
    if (draw) {
      const rows = { count: sequences, before, topTokens, topLogprobs, ...tokenMap };
      this.#draws.race({ ...rows, ahead: level });
    }
    const [even, odd] = scores;
    const isEven = level % 2 === 0;
    const { tokens, parents } = this.#level(level, sequences, width);
    device.selectBeams({
      ...{ count: sequences, before, width, topTokens, topLogprobs, tokens, parents },
      ...(level > 0 && { scores: isEven ? odd : even }),
      ...tokenMap,
      outScores: isEven ? even : odd,
    });
  }

  #level(level: number, sequences: number, width: number): Level {
    const { device } = this.#parts;
    const { levels } = this.#buffers;
    const stride = levelStride(sequences * width);
    const start = 2 * level * stride;
    return {
      tokens: device.rows(levels, start, start + sequences * width),
      parents: device.rows(levels, start + stride, start + stride + sequences * width),
    };
  }

  /** Releases its own memory; that of the weights is the device's. */
  dispose(): void {
    const { scores, top, raced, ...rest } = this.#buffers;
    const tops = [top, raced].flatMap(({ tokens, logprobs }) => [tokens, logprobs]);
    const all = [...scores, ...tops, ...Object.values(rest)];
    for (const memory of all) this.#parts.device.release(memory);
    this.#draws.dispose();
  }
}

/** Where the beams of `count` sequences begin. */
interface BeamStart {
  readonly count: number;
  readonly hidden: DeviceTensor;
  readonly roots: Int32Array | DeviceRoots;
}

/** What `draft` makes of each sequence. */
interface BeamWish extends BranchShape {
  readonly draws?: readonly (BranchDraw | null)[];
}

interface LevelShape {
  readonly sequences: number;
  readonly width: number;
  /** Whether any sequence is sampled. */
  readonly draw: boolean;
}

/** What a level chose, by sequence and beam. */
interface Level {
  /** [S * W] i32: the base's tokens. */
  readonly tokens: DeviceTensor;
  /** [S * W] i32: rows of the level before. */
  readonly parents: DeviceTensor;
}

/** The largest of some wishes, with all their draws. */
function largestOf(wishes: readonly BranchWish[]): BeamWish {
  return {
    width: Math.max(...wishes.map(({ width }) => width)),
    length: Math.max(...wishes.map(({ length }) => length)),
    draws: wishes.map(({ draw }) => draw),
  };
}
