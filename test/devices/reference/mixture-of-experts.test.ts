import { expect, test } from "vitest";
import { ReferenceDevice } from "#devices";
import { activation, floats, matrix, read } from "./sources.ts";

const device = new ReferenceDevice();
/** Expert i multiplies x by 10^i (relu(x) * 1 up, then down). */
const gateUp = [0, 1, 2].map(() => matrix(device, 2, 2, [1, 0, 0, 1]));
const down = [1, 10, 100].map((factor) => matrix(device, 2, 1, [factor, 0]));

async function run(options: { normalize: boolean; accumulate?: boolean }): Promise<number[]> {
  const out = floats(device, [1, 2], [1000, 0]);
  device.mixtureOfExperts({
    ...{ count: 1, out, kind: "relu", expertsPerToken: 2, gateUp, down, ...options },
    x: activation(device, 1, 2, [1, 1]),
    // Softmax: 1/8, 3/8, 4/8.
    routerLogits: floats(device, [1, 3], [0, Math.log(3), Math.log(4)]),
  });
  return read(device, out);
}

test("sums the likeliest experts, each by its probability among all", async () => {
  expect(await run({ normalize: false })).toEqual([(3 / 8) * 10 + (4 / 8) * 100, 0]);
});

test("routing weights of the chosen experts add up to 1 when they are normalised", async () => {
  expect(await run({ normalize: true })).toEqual([61.42857, 0]); // 3/7 * 10 + 4/7 * 100
});

test("accumulates into what is there", async () => {
  expect(await run({ normalize: false, accumulate: true })).toEqual([1053.75, 0]);
});
