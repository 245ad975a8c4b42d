import { expect, test } from "vitest";
import { type ActivationKind, ReferenceDevice } from "#devices";
import { floats, read } from "./sources.ts";

const device = new ReferenceDevice();

async function activated(kind: ActivationKind, values: number[], gated = false): Promise<number[]> {
  const columns = gated ? values.length / 2 : values.length;
  const out = device.allocateActivation("f32", 1, columns);
  const x = floats(device, [1, values.length], values);
  device.activate({ count: 1, kind, out, x, gated });
  return read(device, out);
}

test.for<[ActivationKind, number[]]>([
  ["silu", [-0.26894, 0, 0.73106]],
  ["gelu", [-0.15866, 0, 0.84134]],
  ["gelu-tanh", [-0.15881, 0, 0.84119]],
  ["relu", [0, 0, 1]],
])("%s of -1, 0 and 1", async ([kind, expected]) => {
  expect(await activated(kind, [-1, 0, 1])).toEqual(expected);
});

test("exact GELU agrees with the normal distribution's table far out", async () => {
  expect(await activated("gelu", [-3, 3, -20, 20])).toEqual([-0.00405, 2.99595, 0, 20]);
});

test("a gate comes first and multiplies what comes second", async () => {
  expect(await activated("relu", [2, -1, 10, 10], true)).toEqual([20, 0]);
});
