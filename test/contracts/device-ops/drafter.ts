import { expect, test } from "vitest";
import type { ActivationKind, DeviceTensor } from "#devices";
import type { Both, DevicePair } from "./pair.ts";
import { raceContract } from "./races.ts";
import { RandomNumbers } from "./random.ts";

const kinds: readonly (ActivationKind | null)[] = [
  null,
  "silu",
  "gelu",
  "gelu-tanh",
  "relu",
  "tanh",
];
/** Rows, and columns on the left and right: one, less than a vector, odd, more than a block has. */
const shapes = [
  [1, 576, 576],
  [3, 1, 5],
  [9, 33, 15],
  [37, 130, 301],
] as const;

function joinContract(pair: () => DevicePair): void {
  const cases = kinds.flatMap((kind) =>
    [true, false].flatMap((indexed) => [1, 4].map((leftRepeat) => ({ kind, indexed, leftRepeat }))),
  );
  const name = "joinRows: kind $kind, indices: $indexed, each left row $leftRepeat times";
  test.for(cases)(name, async ({ kind, indexed, leftRepeat }) => {
    for (const [rows, leftColumns, rightColumns] of shapes) {
      const random = new RandomNumbers(rows);
      const leftRows = Math.ceil(rows / leftRepeat);
      const left = pair().f32([leftRows, leftColumns], random.floats(leftRows * leftColumns));
      const values = random.floats(rows * rightColumns, 3);
      values.set([0, -0, 90, -90]);
      const right = pair().f32([rows, rightColumns], values);
      const indices = pair().i32(Array.from({ length: rows }, () => random.below(rows)));
      // The row behind the last one stays as it is.
      const columns = leftColumns + rightColumns;
      const out = pair().f32([rows + 1, columns], random.floats((rows + 1) * columns));
      pair().run((device, pick) => {
        device.joinRows({
          ...{ count: rows, out: pick(out), left: pick(left), right: pick(right) },
          ...(leftRepeat > 1 && { leftRepeat }),
          ...(indexed && { rightIndices: pick(indices) }),
          ...(kind !== null && { rightKind: kind }),
        });
      });
      const relative = kind === null ? 0 : 2e-6;
      await pair().expectClose(out, { absolute: relative, relative });
    }
  });

  test.for([0, -1, 0.5, Number.NaN])("joinRows: a repeat of %s is a bug", (leftRepeat) => {
    const x = pair().f32([1, 1]);
    const out = pair().f32([1, 2]);
    pair().run((device, pick) => {
      const input = { count: 1, out: pick(out), left: pick(x), right: pick(x), leftRepeat };
      expect(() => device.joinRows(input)).toThrow("Cannot join rows");
    });
  });
}

interface BeamCase {
  /** S. */
  readonly count: number;
  readonly before: number;
  /** W and K. */
  readonly width: number;
  readonly perBeam: number;
}

/** One sequence, some and many; from a root and from beams; few candidates, all, the most. */
const beamCases: readonly BeamCase[] = [1, 3, 70].flatMap((count) => [
  { count, before: 1, width: 4, perBeam: 4 },
  { count, before: 4, width: 4, perBeam: 4 },
  { count, before: 3, width: 5, perBeam: 7 },
  { count, before: 1, width: 1, perBeam: 1 },
  { count, before: 4, width: 16, perBeam: 4 },
  { count, before: 16, width: 16, perBeam: 16 },
]);

/** Log-probabilities of every kind, by what is asked of the order. */
const logprobKinds: Readonly<Record<string, (value: number, place: number) => number>> = {
  "of many values": (value) => value,
  "with ties": (value) => Math.round(value),
  "all alike": () => -1,
  "with -Infinity and NaN": (value, place) =>
    [value, Number.NEGATIVE_INFINITY, Math.round(value), Number.NaN][place % 4] ?? 0,
  "all -Infinity": () => Number.NEGATIVE_INFINITY,
  "zeros of both signs": (value) => (value > 0 ? 0 : -0),
};

/** Sums, tokens and rows of the new beams are the definition's, bit by bit. */
async function selectsAlike(pair: DevicePair, given: BeamCase, kind: string): Promise<void> {
  const { count, before, width, perBeam } = given;
  const random = new RandomNumbers(count * before + perBeam);
  const rows = count * before;
  const floats = (length: number) => random.floats(length, 3).map(logprobKinds[kind] ?? Number);
  const topLogprobs = pair.f32([rows, perBeam], floats(rows * perBeam));
  const scores = pair.f32([rows], floats(rows));
  const drafted = 50;
  const ids = Array.from({ length: rows * perBeam }, () => random.below(drafted));
  const topTokens = pair.i32(ids, [rows, perBeam]);
  const tokenMap = pair.i32(random.order(1000).slice(0, drafted));
  for (const isFirst of [true, false]) {
    const beams = count * width;
    const outScores = pair.f32([beams + 1], new Float32Array(beams + 1).fill(7));
    const [tokens, parents] = [unwritten(pair, beams), unwritten(pair, beams)];
    pair.run((device, pick) => {
      device.selectBeams({
        ...{ count, before, width, topTokens: pick(topTokens), topLogprobs: pick(topLogprobs) },
        ...(!isFirst && { scores: pick(scores), tokenMap: pick(tokenMap) }),
        ...{ outScores: pick(outScores), tokens: pick(tokens), parents: pick(parents) },
      });
    });
    await pair.expectClose(outScores, { absolute: 0, relative: 0 });
    await pair.expectEqual(tokens);
    await pair.expectEqual(parents);
  }
}

/** Room for `beams` integers, and one behind them that stays as it is. */
function unwritten(pair: DevicePair, beams: number): Both<DeviceTensor> {
  return pair.i32(new Int32Array(beams + 1).fill(-7));
}

function selectContract(pair: () => DevicePair): void {
  const cases = Object.keys(logprobKinds).flatMap((kind) =>
    beamCases.map((given) => ({ kind, ...given })),
  );
  const name =
    "selectBeams: $count sequences, $width of $before beams by $perBeam tokens, log-probabilities ";
  test.for(cases)(`${name}$kind`, ({ kind, ...given }) => selectsAlike(pair(), given, kind));

  test("selectBeams: counts that do not fit each other are a bug", () => {
    const topTokens = pair().i32(new Int32Array(2 * 129), [2, 129]);
    const topLogprobs = pair().f32([2, 129]);
    const outScores = pair().f32([300]);
    const integers = pair().i32(new Int32Array(300));
    pair().run((device, pick) => {
      const input = {
        ...{ count: 1, before: 1, width: 2, topTokens: pick(topTokens) },
        ...{ topLogprobs: pick(topLogprobs), outScores: pick(outScores) },
        ...{ tokens: pick(integers), parents: pick(integers) },
      };
      for (const wrong of [
        { width: 130 }, // more than there are
        { before: 2 }, // 258 candidates
        { before: 0.5, count: 2 },
        { width: 0 },
        { count: -1 },
        { scores: pick(outScores) },
      ]) {
        expect(() => device.selectBeams({ ...input, ...wrong })).toThrow("Cannot select");
      }
    });
  });
}

function traceContract(pair: () => DevicePair): void {
  test.for([
    { count: 1, width: 1, length: 1, stride: 64 },
    { count: 1, width: 4, length: 4, stride: 64 },
    { count: 37, width: 5, length: 3, stride: 192 },
    { count: 100, width: 16, length: 8, stride: 1600 },
  ])("traceBeams: $count sequences, $width beams of $length", async (shape) => {
    const { count, width, length, stride } = shape;
    const random = new RandomNumbers(count * width);
    const levels = new Int32Array(2 * length * stride);
    for (let level = 0; level < length; level++) {
      for (let beam = 0; beam < count * width; beam++) {
        levels[2 * level * stride + beam] = random.below(1000);
        // A beam of the same sequence; on the first level nothing reads it.
        const parent = Math.floor(beam / width) * width + random.below(width);
        levels[(2 * level + 1) * stride + beam] = level === 0 ? -1 : parent;
      }
    }
    const given = pair().i32(levels);
    const out = unwritten(pair(), count * width * length);
    pair().run((device, pick) => {
      device.traceBeams({ ...shape, levels: pick(given), out: pick(out) });
    });
    await pair().expectEqual(out);
  });
}

/** joinRows, raceCandidates, selectBeams and traceBeams, which a recurrent drafter needs beside the ops of a model. */
export function drafterOps(pair: () => DevicePair): void {
  joinContract(pair);
  raceContract(pair);
  selectContract(pair);
  traceContract(pair);
}
