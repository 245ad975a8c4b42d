/**
 * Runs Medusa's heads on a device: trees of tokens that are likely to follow one hidden state of
 * the base. Source: Cai et al. 2024, "Medusa: Simple LLM Inference Acceleration Framework with
 * Multiple Decoding Heads" (arXiv 2401.10774), and FasterDecoding/Medusa for the exact network.
 */
import { assert, intAt } from "#base";
import type { Activation, Device, DeviceTensor } from "#devices";
import type { BranchShape, DraftNetwork, DraftNetworkLimits } from "./draft-network.ts";
import { CHOICES_MAX, headsOf, type MedusaSpec } from "./medusa-spec.ts";
import { type Choices, type HeadAccuracies, medusaPaths } from "./medusa-tree.ts";
import type { MedusaHead, MedusaWeights } from "./medusa-weights.ts";

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
 * Which choices make a tree depends on the heads' accuracies alone, not on the text. Nothing is
 * kept of a sequence between calls. Nothing is allocated after the constructor, and the heads run
 * as one CUDA graph where the device keeps graphs.
 */
export class Medusa implements DraftNetwork {
  readonly parameters: number;
  readonly #parts: MedusaParts;
  readonly #heads: HeadAccuracies;
  readonly #choices: number;
  readonly #buffers: Buffers;
  readonly #paths = new Map<string, readonly Choices[]>();
  readonly #name = `medusa ${drafters++}`;

  /** Throws OUT_OF_MEMORY. */
  constructor(parts: MedusaParts) {
    const { spec, weights, limits } = parts;
    this.#parts = parts;
    this.#heads = headsOf(spec, weights.heads.length);
    this.#choices = Math.min(limits.widthMax, CHOICES_MAX, weights.draftVocabularySize);
    this.#buffers = allocate(parts, this.#choices);
    this.parameters = weights.parameters;
  }

  get limits(): DraftNetworkLimits {
    return this.#parts.limits;
  }

  async branches(
    hidden: DeviceTensor,
    roots: Int32Array,
    shapes: readonly BranchShape[],
  ): Promise<readonly (readonly Int32Array[])[]> {
    const { device, limits, weights } = this.#parts;
    const { context, rows, topTokens } = this.#buffers;
    const count = roots.length;
    assert(
      count > 0 && count <= limits.sequencesMax && shapes.length === count,
      `Cannot draft for ${count} sequences: at most ${limits.sequencesMax} fit`,
    );
    device.gatherRows({ count, out: context, x: hidden, indices: rows });
    const heads = Math.min(weights.heads.length, Math.max(...shapes.map(({ length }) => length)));
    const sequences = device.paddedBatch(count, limits.sequencesMax);
    device.replay(`${this.#name} ${sequences} ${heads}`, () => {
      for (const [place, head] of weights.heads.slice(0, heads).entries()) {
        this.#run(head, place, sequences);
      }
    });
    const stride = this.#stride();
    const taken = device.readLater(device.rows(topTokens, 0, heads * stride)).take();
    const found = await taken;
    return shapes.map((shape, sequence) =>
      this.#pathsOf(shape).map((path) =>
        Int32Array.from(path, (choice, head) => {
          const place = (head * stride + sequence) * this.#choices + choice;
          const token = intAt(found, place);
          return weights.tokenMap === null ? token : intAt(weights.tokenMap, token);
        }),
      ),
    );
  }

  /** Writes the head's choices. */
  #run(head: MedusaHead, place: number, count: number): void {
    const { device } = this.#parts;
    const { context, rows, x, input, delta, logits, given, chosen, ranks } = this.#buffers;
    device.gatherRows({ count, out: x, x: context, indices: rows });
    for (const layer of head.layers) {
      device.convert({ count, out: input, x });
      device.linear({ count, out: delta, x: input, ...layer });
      device.add({ count, x, delta, kind: "silu" });
    }
    device.convert({ count, out: input, x });
    device.linear({ count, out: logits, x: input, ...head.output });
    const first = place * this.#stride();
    device.logprobs({
      ...{ count, logits, tokens: given, chosen, ranks },
      topCount: this.#choices,
      topTokens: device.rows(this.#buffers.topTokens, first, first + count),
      topLogprobs: device.rows(this.#buffers.topLogprobs, 0, count),
    });
  }

  /** The paths of a shape's tree, which all texts share. */
  #pathsOf({ length, width }: BranchShape): readonly Choices[] {
    const { nodesMax } = this.#parts;
    const key = `${length} ${width}`;
    const known = this.#paths.get(key);
    if (known !== undefined) return known;
    const choices = Math.min(width, this.#choices);
    const bounds = { length, width: choices, nodesMax: Math.min(nodesMax, length * width) };
    const paths = medusaPaths(this.#heads, bounds);
    this.#paths.set(key, paths);
    return paths;
  }

  #stride(): number {
    return strideOf(this.#parts.limits);
  }

  dispose(): void {
    for (const memory of Object.values(this.#buffers)) this.#parts.device.release(memory);
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
}

function allocate({ device, weights, limits }: MedusaParts, choices: number): Buffers {
  const { hiddenSize, draftVocabularySize, format, heads } = weights;
  const { sequencesMax } = limits;
  const f32 = (...shape: number[]): DeviceTensor => device.allocate("f32", shape);
  const i32 = (...shape: number[]): DeviceTensor => device.allocate("i32", shape);
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
  };
}
