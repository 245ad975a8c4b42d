/**
 * Runs Medusa's heads on a device: trees of tokens that are likely to follow one hidden state of
 * the base. Source: Cai et al. 2024, "Medusa: Simple LLM Inference Acceleration Framework with
 * Multiple Decoding Heads" (arXiv 2401.10774), and FasterDecoding/Medusa for the exact network.
 */
import { assert, intAt } from "#base";
import type { Activation, Device, DeviceTensor, LateRead } from "#devices";
import { DraftDraws, racedTokens } from "./draft-draws.ts";
import type {
  BranchShape,
  BranchWish,
  DeviceRoots,
  DraftNetwork,
  DraftNetworkLimits,
} from "./draft-network.ts";
import { CHOICES_MAX, headsOf, type MedusaSpec } from "./medusa-spec.ts";
import {
  type Choices,
  type HeadAccuracies,
  type MedusaNodes,
  medusaNodes,
  medusaPaths,
} from "./medusa-tree.ts";
import type { MedusaHead, MedusaWeights } from "./medusa-weights.ts";
import { type StartedTrees, startedTrees } from "./started-trees.ts";

export interface MedusaParts {
  readonly device: Device;
  readonly spec: MedusaSpec;
  readonly weights: MedusaWeights;
  readonly limits: DraftNetworkLimits;
  /** Most drafted nodes of a tree. */
  readonly nodesMax: number;
}

/** A head's choices begin at multiples of this many rows: copies of devices are aligned. */
const alignment = 64;

/** Number of drafters so far: several may share a device, and their graphs need distinct keys. */
let drafters = 0;

/**
 * Drafts for all sequences of a step at once. All heads read the same hidden state, and none reads
 * what another drafts:
 *
 *   x       = hidden state; x += silu(x . layer)     for each layer of head n
 *   choices = the likeliest tokens of x . output, for the n-th token behind the root
 *
 * Of a sequence that is sampled, a head's likeliest tokens race with the noise that the model
 * samples with, and its choices are in the order of the race. Which choices make a tree depends on
 * the heads' accuracies alone, not on the text. Nothing is
 * kept of a sequence between calls. Nothing is allocated after the constructor, and the heads run
 * as one CUDA graph where the device keeps graphs.
 */
export class Medusa implements DraftNetwork {
  readonly parameters: number;
  readonly #parts: MedusaParts;
  readonly #heads: HeadAccuracies;
  readonly #choices: number;
  readonly #buffers: Buffers;
  readonly #draws: DraftDraws;
  readonly #trees = new Map<string, MedusaTree>();
  readonly #name = `medusa ${drafters++}`;

  /** Throws OUT_OF_MEMORY, and CHECKPOINT_INVALID for accuracies of heads that are not there. */
  constructor(parts: MedusaParts) {
    const { spec, weights, limits } = parts;
    this.#parts = parts;
    this.#heads = headsOf(spec, weights.heads.length);
    this.#choices = Math.min(limits.widthMax, CHOICES_MAX, weights.draftVocabularySize);
    this.#buffers = allocate(parts, this.#choices);
    this.#draws = new DraftDraws(parts.device, limits.sequencesMax);
    this.parameters = weights.parameters;
  }

  get limits(): DraftNetworkLimits {
    return this.#parts.limits;
  }

  async branches(
    hidden: DeviceTensor,
    roots: Int32Array,
    wishes: readonly BranchWish[],
  ): Promise<readonly (readonly Int32Array[])[]> {
    assert(roots.length === wishes.length, "Cannot draft behind roots without wishes");
    const found = await this.#enqueue(hidden, wishes).take();
    return wishes.map((shape, sequence) =>
      this.#treeOf(shape).paths.map((path) =>
        Int32Array.from(path, (choice, head) =>
          intAt(found, this.#placeOf(sequence, head, choice)),
        ),
      ),
    );
  }

  trees(
    hidden: DeviceTensor,
    roots: Int32Array | DeviceRoots,
    wishes: readonly BranchWish[],
  ): StartedTrees {
    // Heads read no root, but races draw at positions behind it.
    const positions = roots instanceof Int32Array ? undefined : roots.positions;
    const read = this.#enqueue(hidden, wishes, positions);
    const trees = wishes.map((shape) => this.#treeOf(shape).nodes);
    const placeOf = (tree: number, node: number): number => {
      const nodes = trees[tree];
      assert(nodes !== undefined, "Cannot place a node of no tree");
      return this.#placeOf(tree, intAt(nodes.depths, node) - 1, intAt(nodes.choices, node));
    };
    const count = this.#headsOf(wishes) * this.#stride() * this.#choices;
    return startedTrees({ tokens: this.#tokens, count, read, nodes: trees, placeOf });
  }

  /** Enqueues the heads of all wishes, and the read of their choices as the base's tokens. */
  #enqueue(
    hidden: DeviceTensor,
    wishes: readonly BranchWish[],
    positions?: DeviceTensor,
  ): LateRead {
    const { device, limits, weights } = this.#parts;
    const { context, rows } = this.#buffers;
    const count = wishes.length;
    assert(
      count > 0 && count <= limits.sequencesMax,
      `Cannot draft for ${count} sequences: at most ${limits.sequencesMax} fit`,
    );
    device.gatherRows({ count, out: context, x: hidden, indices: rows });
    const heads = this.#headsOf(wishes);
    const sequences = device.paddedBatch(count, limits.sequencesMax);
    const draws = this.#draws.write(
      wishes.map(({ draw }) => draw),
      positions,
    );
    device.replay(`${this.#name} ${sequences} ${heads} ${draws}`, () => {
      for (const [place, head] of weights.heads.slice(0, heads).entries()) {
        this.#run(head, sequences);
        if (draws) this.#race(place, sequences);
        else this.#choose(place, sequences);
        this.#map(place, sequences);
      }
    });
    return device.readLater(device.rows(this.#tokens, 0, heads * this.#stride()));
  }

  /** A head's choices as the base's tokens. */
  #map(place: number, count: number): void {
    const { tokenMap, mapped } = this.#buffers;
    if (mapped === null) return;
    this.#parts.device.takeTokens({
      ...{ count: count * this.#choices, sampled: tokenMap },
      ...{ ids: this.#ofHead(mapped, place, count), sources: this.#choicesOf(place, count) },
    });
  }

  /** [heads * padded S, choices] i32: the base's tokens. */
  get #tokens(): DeviceTensor {
    return this.#buffers.mapped ?? this.#buffers.topTokens;
  }

  #headsOf(wishes: readonly BranchWish[]): number {
    const length = Math.max(...wishes.map((wish) => wish.length));
    return Math.min(this.#parts.weights.heads.length, length);
  }

  #placeOf(sequence: number, head: number, choice: number): number {
    return (head * this.#stride() + sequence) * this.#choices + choice;
  }

  /** Writes the head's logits. */
  #run(head: MedusaHead, count: number): void {
    const { device } = this.#parts;
    const { context, rows, x, input, delta, logits } = this.#buffers;
    device.gatherRows({ count, out: x, x: context, indices: rows });
    for (const layer of head.layers) {
      device.convert({ count, out: input, x });
      device.linear({ count, out: delta, x: input, ...layer });
      device.add({ count, x, delta, kind: "silu" });
    }
    device.convert({ count, out: input, x });
    device.linear({ count, out: logits, x: input, ...head.output });
  }

  /** A head's choices are its likeliest tokens. */
  #choose(place: number, count: number): void {
    const { device } = this.#parts;
    const { logits, given, chosen, ranks, topLogprobs } = this.#buffers;
    device.logprobs({
      ...{ count, logits, tokens: given, chosen, ranks, topCount: this.#choices },
      topTokens: this.#choicesOf(place, count),
      topLogprobs: device.rows(topLogprobs, 0, count),
    });
  }

  /** A head's choices are the best of a race. */
  #race(place: number, count: number): void {
    const { device } = this.#parts;
    const { logits, given, chosen, ranks, topLogprobs, parents, tokenMap } = this.#buffers;
    const topTokens = device.rows(this.#buffers.racedTokens, 0, count);
    const raced = device.rows(this.#buffers.racedLogprobs, 0, count);
    device.logprobs({
      ...{ count, logits, tokens: given, chosen, ranks, topCount: topTokens.shape[1] ?? 0 },
      ...{ topTokens, topLogprobs: raced },
    });
    const { tokenMap: map } = this.#parts.weights;
    this.#draws.race({
      ...{ count, before: 1, topTokens, topLogprobs: raced, ahead: place },
      ...(map !== null && { tokenMap }),
    });
    device.selectBeams({
      ...{ count, before: 1, width: this.#choices, topTokens, topLogprobs: raced },
      ...{ outScores: device.rows(topLogprobs, 0, count), parents: device.rows(parents, 0, count) },
      tokens: this.#choicesOf(place, count),
    });
  }

  /** [count, choices] of a head. */
  #choicesOf(place: number, count: number): DeviceTensor {
    return this.#ofHead(this.#buffers.topTokens, place, count);
  }

  /** Rows of a head. */
  #ofHead(rows: DeviceTensor, place: number, count: number): DeviceTensor {
    const first = place * this.#stride();
    return this.#parts.device.rows(rows, first, first + count);
  }

  /** The tree of a shape, which all texts share. */
  #treeOf({ length, width }: BranchShape): MedusaTree {
    const { nodesMax } = this.#parts;
    const key = `${length} ${width}`;
    const known = this.#trees.get(key);
    if (known !== undefined) return known;
    const choices = Math.min(width, this.#choices);
    const bounds = { length, width: choices, nodesMax: Math.min(nodesMax, length * width) };
    const paths = medusaPaths(this.#heads, bounds);
    const tree = { paths, nodes: medusaNodes(paths) };
    this.#trees.set(key, tree);
    return tree;
  }

  #stride(): number {
    return strideOf(this.#parts.limits);
  }

  dispose(): void {
    for (const memory of Object.values(this.#buffers)) {
      if (memory !== null) this.#parts.device.release(memory);
    }
    this.#draws.dispose();
  }
}

/** Rows from one head's choices to the next one's. */
function strideOf({ sequencesMax }: DraftNetworkLimits): number {
  return Math.ceil(sequencesMax / alignment) * alignment;
}

/** Letters: `MedusaSpec`; S: most sequences. */
interface Buffers {
  /** [S, H] f32: the hidden states that predicted the roots. */
  readonly context: DeviceTensor;
  /** [S] i32: 0, 1, 2 and so on. */
  readonly rows: DeviceTensor;
  /** [S, H] f32, for a GEMM, and f32. */
  readonly x: DeviceTensor;
  readonly input: Activation;
  readonly delta: DeviceTensor;
  /** [S, draft vocabulary] f32. */
  readonly logits: DeviceTensor;
  /** [S] i32 zeros, f32 and i32: the op also scores one given token a row, which is unused. */
  readonly given: DeviceTensor;
  readonly chosen: DeviceTensor;
  readonly ranks: DeviceTensor;
  /** [heads * padded S, choices] i32: of each head; and f32 of one head. */
  readonly topTokens: DeviceTensor;
  readonly topLogprobs: DeviceTensor;
  /** [S, raced] i32 and f32: the tokens of one head that race, and their lags. */
  readonly racedTokens: DeviceTensor;
  readonly racedLogprobs: DeviceTensor;
  /** [S, choices] i32, unused. */
  readonly parents: DeviceTensor;
  /** The map of the weights; one zero without one. */
  readonly tokenMap: DeviceTensor;
  /** As `topTokens`, of the base; null: these are. */
  readonly mapped: DeviceTensor | null;
}

interface MedusaTree {
  readonly paths: readonly Choices[];
  readonly nodes: MedusaNodes;
}

function allocate({ device, weights, limits }: MedusaParts, choices: number): Buffers {
  const { hiddenSize, draftVocabularySize, format, heads } = weights;
  const raced = Math.max(choices, racedTokens(1, draftVocabularySize));
  const { sequencesMax } = limits;
  const f32 = (...shape: number[]): DeviceTensor => device.allocate("f32", shape);
  const i32 = (...shape: number[]): DeviceTensor => device.allocate("i32", shape);
  const map = weights.tokenMap ?? new Int32Array(1);
  const tokenMap = i32(map.length);
  device.write(tokenMap, map);
  const rows = i32(sequencesMax);
  device.write(
    rows,
    Int32Array.from({ length: sequencesMax }, (_, row) => row),
  );
  return {
    ...{ context: f32(sequencesMax, hiddenSize), rows, x: f32(sequencesMax, hiddenSize) },
    input: device.allocateActivation(format, sequencesMax, hiddenSize),
    delta: f32(sequencesMax, hiddenSize),
    logits: f32(sequencesMax, draftVocabularySize),
    ...{ given: i32(sequencesMax), chosen: f32(sequencesMax), ranks: i32(sequencesMax) },
    topTokens: i32(heads.length * strideOf(limits), choices),
    topLogprobs: f32(sequencesMax, choices),
    ...{ racedTokens: i32(sequencesMax, raced), racedLogprobs: f32(sequencesMax, raced) },
    ...{ parents: i32(sequencesMax, choices), tokenMap },
    mapped: weights.tokenMap && i32(heads.length * strideOf(limits), choices),
  };
}
