import { expect, test } from "vitest";
import { CpuDevice } from "../../../src/devices/cpu/cpu-device.ts";
import { sized } from "../../support/full.ts";
import { randomFloats, sourceOf } from "./linear-material.ts";

/** More threads than most machines have cores, so that some lose theirs in the middle of an op. */
const MANY_THREADS = 13;
/** Less than a panel, fewer panels than threads, and many. */
const OUTPUTS = [8, 96, 2000];
/** Long enough that activations are made in parts, the last one of a group that is not whole. */
const COLUMNS = 4000;

/**
 * The sums of products of one row that were added up, by one program that is repeated: a task that
 * no thread ran, or that two ran, changes them.
 */
async function addedUp(threads: number, rounds: number): Promise<readonly Float32Array[]> {
  const device = CpuDevice.open({ threads });
  try {
    const x = device.allocate("f32", [1, 2 * COLUMNS]);
    device.write(x, randomFloats(2 * COLUMNS, 1));
    const input = device.allocateActivation("i8", 1, COLUMNS);
    const products = OUTPUTS.map((rows) => ({
      weight: device.pack([sourceOf(randomFloats(rows * COLUMNS, rows), [rows, COLUMNS])], {
        format: "i8",
      }),
      out: device.allocate("f32", [1, rows]),
    }));
    for (let round = 0; round < rounds; round++) {
      device.replay("all products", () => {
        for (const { weight, out } of products) {
          device.activate({ count: 1, out: input, x, kind: "silu", gated: true });
          device.linear({ count: 1, out, x: input, weight, accumulate: true });
        }
      });
    }
    return await Promise.all(products.map(({ out }) => device.readF32(out)));
  } finally {
    device.dispose();
  }
}

test("each task of a product runs once, also where there are more threads than cores", async () => {
  const rounds = sized(200, 5000);
  const [one, many] = [await addedUp(1, rounds), await addedUp(MANY_THREADS, rounds)];
  expect(many).toEqual(one);
  expect(one.every((sums) => sums.some((sum) => Math.abs(sum) > 1))).toBe(true);
});
