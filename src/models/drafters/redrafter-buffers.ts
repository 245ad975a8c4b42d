import type { Activation, Device, DeviceTensor, WeightMatrix } from "#devices";
import { racedTokens } from "./draft-draws.ts";
import type { DraftNetworkLimits } from "./draft-network.ts";
import type { ReDrafterSpec } from "./redrafter-spec.ts";
import type { ReDrafterWeights } from "./redrafter-weights.ts";
import { levelStride } from "./started-trees.ts";

export interface ReDrafterParts {
  readonly device: Device;
  readonly spec: ReDrafterSpec;
  readonly weights: ReDrafterWeights;
  /** [V, H]: the base's token embeddings, as the base stores them. */
  readonly embeddings: WeightMatrix;
  /** The width is at most the draft vocabulary. */
  readonly limits: DraftNetworkLimits;
}

/** The likeliest tokens of each row. */
interface TopTokens {
  readonly count: number;
  /** [R, count] i32 and f32. */
  readonly tokens: DeviceTensor;
  readonly logprobs: DeviceTensor;
}

/** Letters: `ReDrafterSpec`; R: rows, the most beams of all sequences. */
export interface ReDrafterBuffers {
  /** [S, H] f32: the hidden state that each sequence's beams begin at. */
  readonly context: DeviceTensor;
  /** [S] i32. */
  readonly roots: DeviceTensor;
  /** [R] i32: 0, 1, 2 and so on. */
  readonly rows: DeviceTensor;
  /** [R, H] f32. */
  readonly embedded: DeviceTensor;
  /** [R, H] f32: before its activation, where the state is recurrent. */
  readonly state: DeviceTensor;
  /** [R, H] f32. */
  readonly sum: DeviceTensor;
  /** [1, H] f32 and [S] i32, zeros: the state before the first level. */
  readonly noState: DeviceTensor;
  readonly noRows: DeviceTensor;
  /** [R, 2 H] f32, and for a GEMM. */
  readonly joined: DeviceTensor;
  readonly joinedInput: Activation;
  /** [R, X] f32, for a GEMM, and f32. */
  readonly projected: DeviceTensor;
  readonly exitInput: Activation;
  readonly delta: DeviceTensor;
  /** [R, draft vocabulary] f32. */
  readonly logits: DeviceTensor;
  /** [R] i32 zeros, f32 and i32: the op also scores one given token a row, which is unused. */
  readonly given: DeviceTensor;
  readonly chosen: DeviceTensor;
  readonly ranks: DeviceTensor;
  /** As many as the widest draft can take, which narrower ones read too; and for races. */
  readonly top: TopTokens;
  readonly raced: TopTokens;
  /** [R] f32 each: of even and odd levels. */
  readonly scores: readonly [DeviceTensor, DeviceTensor];
  /** [2 * L, padded R] i32: tokens and parents of each level. */
  readonly levels: DeviceTensor;
  /** [R * L] i32: tokens of each beam. */
  readonly beams: DeviceTensor;
}

/** Throws OUT_OF_MEMORY. */
export function allocateReDrafter({
  device,
  spec,
  weights,
  limits,
}: ReDrafterParts): ReDrafterBuffers {
  const { hiddenSize, exitSize, draftVocabularySize } = spec;
  const { sequencesMax, widthMax, lengthMax } = limits;
  const rowsMax = sequencesMax * widthMax;
  const { format, projection, recurrence } = weights;
  /** Rows of memory that not every network uses. */
  const rowsIf = (isUsed: boolean): number => (isUsed ? rowsMax : 1);
  const f32 = (...shape: number[]): DeviceTensor => device.allocate("f32", shape);
  const i32 = (...shape: number[]): DeviceTensor => device.allocate("i32", shape);
  const topOf = (count: number): TopTokens => {
    return { count, tokens: i32(rowsMax, count), logprobs: f32(rowsMax, count) };
  };
  const rows = i32(rowsMax);
  device.write(
    rows,
    Int32Array.from({ length: rowsMax }, (_, row) => row),
  );
  return {
    ...{ context: f32(sequencesMax, hiddenSize), roots: i32(sequencesMax), rows },
    ...{ embedded: f32(rowsMax, hiddenSize), state: f32(rowsMax, hiddenSize) },
    sum: f32(rowsIf(recurrence === null), hiddenSize),
    ...{ noState: f32(1, hiddenSize), noRows: i32(sequencesMax) },
    joined: f32(rowsMax, 2 * hiddenSize),
    joinedInput: device.allocateActivation(format, rowsMax, 2 * hiddenSize),
    projected: f32(rowsIf(projection !== null), exitSize),
    exitInput: device.allocateActivation(format, rowsMax, exitSize),
    ...{ delta: f32(rowsMax, exitSize), logits: f32(rowsMax, draftVocabularySize) },
    ...{ given: i32(rowsMax), chosen: f32(rowsMax), ranks: i32(rowsMax) },
    ...{ top: topOf(widthMax), raced: topOf(racedTokens(widthMax, draftVocabularySize)) },
    scores: [f32(rowsMax), f32(rowsMax)],
    levels: i32(2 * lengthMax * levelStride(rowsMax)),
    beams: i32(rowsMax * lengthMax),
  };
}
