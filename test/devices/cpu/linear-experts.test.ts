import { afterAll, describe, expect, test } from "vitest";
import type { ActivationKind, Device, MixtureOfExpertsInput, WeightFormat } from "#devices";
import { ReferenceDevice } from "#devices";
import { CpuDevice } from "../../../src/devices/cpu/cpu-device.ts";
import { expectSameBits } from "../../support/same-bits.ts";
import { activationOf, cpuDevices, randomFloats, sourceOf, worstError } from "./linear-material.ts";

const FORMATS: readonly WeightFormat[] = ["f32", "bf16", "i8", "q8"];

/**
 * Relative to the largest output. f32: order of additions. The narrow formats round the activation
 * between the two products; a value next to a rounding boundary may fall to its other side.
 */
const TOLERANCE: Readonly<Record<WeightFormat, number>> = {
  f32: 1e-5,
  bf16: 5e-3,
  i8: 2e-2,
  q8: 2e-2,
};

const devices = cpuDevices();
const reference = new ReferenceDevice();
afterAll(() => {
  for (const { device } of devices) device.dispose();
});

interface Problem {
  readonly format: WeightFormat;
  readonly count: number;
  readonly experts: number;
  readonly expertsPerToken: number;
  readonly normalize: boolean;
  readonly kind: ActivationKind;
}

const COLUMNS = 72;
const HIDDEN = 50;

/** Everything but `count`, from seeds. */
function inputFor(device: Device, problem: Problem): MixtureOfExpertsInput {
  const { format, count, experts } = problem;
  const pack = (seed: number, rows: number, columns: number) =>
    device.pack([sourceOf(randomFloats(rows * columns, seed), [rows, columns])], { format });
  const ids = Array.from({ length: experts }, (_, expert) => expert);
  const routerLogits = device.allocate("f32", [count, experts]);
  // Rounded, so that some logits are equal: the lower expert wins.
  device.write(
    routerLogits,
    randomFloats(count * experts, 2).map((value) => Math.round(value * 8) / 2),
  );
  return {
    ...problem,
    out: device.allocate("f32", [count, COLUMNS]),
    x: activationOf(device, format, randomFloats(count * COLUMNS, 1), count),
    routerLogits,
    gateUp: ids.map((expert) => pack(100 + expert, 2 * HIDDEN, COLUMNS)),
    down: ids.map((expert) => pack(200 + expert, COLUMNS, HIDDEN)),
  };
}

async function mix(device: Device, problem: Problem, accumulate: boolean): Promise<Float32Array> {
  const input = inputFor(device, problem);
  device.write(input.out, randomFloats(problem.count * COLUMNS, 3));
  device.mixtureOfExperts({ ...input, accumulate });
  return device.readF32(input.out);
}

const PROBLEMS: readonly Omit<Problem, "format">[] = [
  { count: 1, experts: 4, expertsPerToken: 2, normalize: true, kind: "silu" },
  { count: 5, experts: 4, expertsPerToken: 1, normalize: false, kind: "gelu" },
  { count: 23, experts: 9, expertsPerToken: 3, normalize: true, kind: "gelu-tanh" },
  { count: 40, experts: 17, expertsPerToken: 8, normalize: false, kind: "relu" },
];

describe.for(devices)("mixture of experts on $isa", ({ isa, device }) => {
  test.for(FORMATS)("gives the same bits where five threads pack its rows: %s", async (format) => {
    const problem: Problem = {
      format,
      count: 90,
      experts: 6,
      expertsPerToken: 2,
      normalize: true,
      kind: "silu",
    };
    const wanted = await mix(device, problem, false);
    const other = CpuDevice.open({ isa, threads: 5 });
    expectSameBits(await mix(other, problem, false), wanted);
    other.dispose();
  });

  test.for(FORMATS.flatMap((format) => PROBLEMS.map((problem) => ({ ...problem, format }))))(
    "equals the definition: $format, $count tokens, $expertsPerToken of $experts",
    async (problem) => {
      const accumulate = problem.count % 2 === 1;
      const actual = await mix(device, problem, accumulate);
      const wanted = await mix(reference, problem, accumulate);
      const largest = wanted.reduce((most, value) => Math.max(most, Math.abs(value)), 1);
      expect(worstError(actual, wanted, largest)).toBeLessThan(TOLERANCE[problem.format]);
    },
  );

  test.for(FORMATS)("gives a token the same bits in any batch: %s", async (format) => {
    const problem: Problem = {
      format,
      count: 30,
      experts: 6,
      expertsPerToken: 2,
      normalize: true,
      kind: "silu",
    };
    const input = inputFor(device, problem);
    device.mixtureOfExperts(input);
    const together = await device.readF32(input.out);
    for (const first of [29, 22, 11, 3]) {
      const count = problem.count - first;
      device.mixtureOfExperts({
        ...input,
        count,
        x: device.activationRows(input.x, first, problem.count),
        routerLogits: device.rows(input.routerLogits, first, problem.count),
      });
      const alone = await device.readF32(device.rows(input.out, 0, count));
      expectSameBits(alone, together.subarray(first * COLUMNS));
    }
  });
});
