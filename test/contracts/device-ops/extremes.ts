/** Numbers at the ends of their types, and choices between equals: every device decides alike. */
import { expect, test } from "vitest";
import type { Device, WeightMatrix } from "#devices";
import type { Both, DevicePair } from "./pair.ts";
import { RandomNumbers } from "./random.ts";

const COLUMNS = 200;
/** The largest float32, its smallest normal one and its smallest one. */
const LARGEST = 3.4028234663852886e38;
const NORMAL_MIN = 1.1754943508222875e-38;
const SMALLEST = 1.401298464324817e-45;

/** Rows [COLUMNS] that an int8 row with a scale per group has to stand for. */
const hardRows: Readonly<Record<string, (place: number) => number>> = {
  zeros: () => 0,
  "negative zeros": () => -0,
  "one outlier of 10^30": (place) => (place === 77 ? 1e30 : Math.sin(place)),
  "the smallest numbers": (place) => (place % 3) * SMALLEST,
  "below normal": (place) => ((place % 5) - 2) * (NORMAL_MIN / 8),
  "all at plus and minus one value": (place) => (place % 2 === 0 ? 5 : -5),
  "halves between steps": (place) => ((place % 254) - 126.5) / 127,
};

function rowOf(name: string): number[] {
  return Array.from({ length: COLUMNS }, (_, place) => hardRows[name]?.(place) ?? Number.NaN);
}

/**
 * Groups are added up in another order, and what cancels leaves the rounding of what did. Scales
 * below float32's normal numbers have few bits, products below them none that count.
 */
function errorOf(x: string, weights: string): number {
  const other = rowOf(weights);
  const largest = Math.max(...rowOf(x).map((value, i) => Math.abs(value * (other[i] ?? 0))));
  const isCoarse = [x, weights].includes("below normal");
  return largest * (isCoarse ? 0.05 : 1e-4) + NORMAL_MIN;
}

function matrixOf(pair: DevicePair, rows: readonly number[][]): Both<WeightMatrix> {
  const bytes = new Uint8Array(Float32Array.from(rows.flat()).buffer);
  const shape = [rows.length, rows[0]?.length ?? 0];
  const source = {
    name: "weights",
    dtype: "f32",
    shape,
    bytes: () => bytes,
    discard() {},
  } as const;
  return pair.make((device: Device) => device.pack([source], { format: "i8" }));
}

/** linear in int8, `x` by one row of weights, and what it should give with its own rounding. */
async function multiply(pair: DevicePair, x: number[], weights: number[]): Promise<number[]> {
  const plain = pair.f32([1, COLUMNS], x);
  const rounded = pair.activation("i8", 1, COLUMNS);
  const weight = matrixOf(pair, [weights]);
  const out = pair.f32([1, 1]);
  pair.run((device, pick) => {
    device.convert({ count: 1, out: pick(rounded), x: pick(plain) });
    device.linear({ count: 1, out: pick(out), x: pick(rounded), weight: pick(weight) });
  });
  const [defined = Number.NaN] = await pair.defined.readF32(out.defined);
  const [tested = Number.NaN] = await pair.tested.readF32(out.tested);
  return [defined, tested];
}

/** Experts that tell themselves apart: expert e gives (e + 1)^2 for an x of ones. */
async function chosenBy(pair: DevicePair, logits: number[], expertsPerToken: number) {
  const experts = logits.map((_, expert) => expert);
  const of = (rows: number[][]) => {
    const bytes = new Uint8Array(Float32Array.from(rows.flat()).buffer);
    const shape = [rows.length, rows[0]?.length ?? 0];
    const source = { name: "w", dtype: "f32", shape, bytes: () => bytes, discard() {} } as const;
    return pair.make((device: Device) => device.pack([source], { format: "f32" }));
  };
  const x = pair.make((device) => {
    const rows = device.allocateActivation("f32", 1, 2);
    const plain = device.allocate("f32", [1, 2]);
    device.write(plain, Float32Array.of(1, 0));
    device.convert({ count: 1, out: rows, x: plain });
    return rows;
  });
  const identity = [
    [1, 0],
    [1, 0],
  ];
  const gateUp = experts.map(() => of(identity));
  const down = experts.map((expert) => of([[2 ** expert], [0]]));
  const out = pair.f32([1, 2]);
  const routerLogits = pair.f32([1, logits.length], logits);
  pair.run((device, pick) => {
    device.mixtureOfExperts({
      ...{ count: 1, expertsPerToken, normalize: true, kind: "relu", out: pick(out), x: pick(x) },
      routerLogits: pick(routerLogits),
      gateUp: gateUp.map(pick),
      down: down.map(pick),
    });
  });
  const [defined = Number.NaN] = await pair.defined.readF32(out.defined);
  const [tested = Number.NaN] = await pair.tested.readF32(out.tested);
  return { defined, tested };
}

/** The extremes on `pair`. */
export function extremes(pair: () => DevicePair): void {
  const names = Object.keys(hardRows);
  const cases = names.flatMap((x) => names.map((weights) => [x, weights] as const));
  test.for(cases)("linear in int8: rows of %s by weights of %s", async ([x, weights]) => {
    const [defined = Number.NaN, tested] = await multiply(pair(), rowOf(x), rowOf(weights));
    expect(Number.isNaN(defined)).toBe(false);
    // Beyond float32 a device that scales parts of a sum may find infinity times zero.
    if (!Number.isFinite(defined)) expect(Number.isFinite(tested)).toBe(false);
    else
      expect(Math.abs((tested ?? Number.NaN) - defined)).toBeLessThanOrEqual(errorOf(x, weights));
  });

  test("linear in int8: products beyond the largest float32 are infinite, and never NaN", async () => {
    const row = Array.from({ length: COLUMNS }, () => LARGEST);
    const [defined, tested] = await multiply(pair(), row, row);
    expect([defined, tested]).toEqual([Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]);
  });

  test.for<[string, number[], number, number[]]>([
    ["all equal", [0, 0, 0, 0], 2, [0, 1]],
    ["all equal, of eight", Array(8).fill(-3.5), 4, [0, 1, 2, 3]],
    ["equal behind the largest", [1, 5, 1, 1], 2, [1, 0]],
    ["equal at the last place", [2, 7, 7, 7], 2, [1, 2]],
    ["zeros of both signs", [-0, 0, -0, 0], 2, [0, 1]],
    ["one choice of two", [4, 4], 1, [0]],
  ])(
    "experts of equal weight are taken by rising number: %s",
    async ([, logits, count, chosen]) => {
      const { defined, tested } = await chosenBy(pair(), logits, count);
      const weights = chosen.map((expert) => Math.exp((logits[expert] ?? 0) - Math.max(...logits)));
      const total = weights.reduce((sum, weight) => sum + weight, 0);
      const wanted = chosen.reduce((sum, e, i) => sum + 2 ** e * ((weights[i] ?? 0) / total), 0);
      expect(defined).toBeCloseTo(wanted, 4);
      expect(tested).toBeCloseTo(wanted, 4);
    },
  );

  test("experts: a tie among random logits is decided as in the definition", async () => {
    const random = new RandomNumbers(3);
    for (let round = 0; round < 50; round++) {
      const logits = Array.from(random.floats(9, 2), (value) => Math.round(value));
      const { defined, tested } = await chosenBy(pair(), logits, 3);
      expect(Math.abs(tested - defined)).toBeLessThanOrEqual(1e-4 * Math.abs(defined));
    }
  });
}
