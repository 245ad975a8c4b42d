import { assert } from "#base";
import { elementCount } from "#tensor";
import type {
  JoinRowsInput,
  RaceCandidatesInput,
  SelectBeamsInput,
  TraceBeamsInput,
} from "./ops.ts";

/** Most candidates of a sequence: a GPU compares them in the shared memory of one block. */
const candidatesMax = 256;

function isCount(value: number, least: number): boolean {
  return Number.isInteger(value) && value >= least;
}

/** Checks the repeat of `joinRows`, the same on every device, and returns it. */
export function leftRepeatOf({ leftRepeat = 1 }: JoinRowsInput): number {
  assert(
    isCount(leftRepeat, 1),
    `Cannot join rows: a repeat of at least 1 wanted, current value is ${leftRepeat}`,
  );
  return leftRepeat;
}

/** Checks the counts of `selectBeams`, the same on every device, and returns K. */
export function beamTokensOf(input: SelectBeamsInput): number {
  const { count, before, width } = input;
  assert(
    isCount(count, 0) && isCount(before, 1) && isCount(width, 1),
    `Cannot select ${width} of ${before} beams for ${count} sequences: whole numbers wanted`,
  );
  const tokens = elementCount(input.topTokens.shape.slice(1));
  const candidates = tokens * before;
  assert(
    width <= candidates && candidates <= candidatesMax,
    `Cannot select beams: ${width} to ${candidatesMax} candidates wanted, ` +
      `current value is ${candidates}`,
  );
  assert(
    input.scores !== input.outScores,
    "Cannot select beams: outScores apart from scores wanted, they are one tensor",
  );
  return tokens;
}

/** Checks the counts of `raceCandidates`, the same on every device, and returns K. */
export function racedTokensOf(input: RaceCandidatesInput): number {
  const { count, before, ahead } = input;
  assert(
    isCount(count, 0) && isCount(before, 1) && isCount(ahead, 0),
    `Cannot race candidates of ${before} rows for ${count} sequences: whole numbers wanted`,
  );
  const tokens = elementCount(input.topTokens.shape.slice(1));
  assert(
    tokens <= candidatesMax,
    `Cannot race candidates: at most ${candidatesMax} of a row wanted, current value is ${tokens}`,
  );
  return tokens;
}

/** Checks the counts of `traceBeams`, the same on every device, and returns the beams of all. */
export function tracedBeamsOf({ count, width, length, stride }: TraceBeamsInput): number {
  assert(
    isCount(count, 0) && isCount(width, 1) && isCount(length, 1) && isCount(stride, 1),
    `Cannot trace ${width} beams of ${length} for ${count} sequences: whole numbers wanted`,
  );
  assert(
    count * width <= stride,
    `Cannot trace beams: levels of at least ${count * width} elements wanted, current value is ` +
      `${stride}`,
  );
  return count * width;
}
