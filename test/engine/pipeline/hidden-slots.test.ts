import { fstatSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { HiddenSlots } from "../../../src/engine/pipeline/hidden-slots.ts";

test("[PP9] hidden states are read as they were written, by each that has the descriptor", () => {
  const sizes = { slots: 3, floatsPerSlot: 5000 };
  const slots = HiddenSlots.create(sizes);
  const other = new HiddenSlots(slots.fd, sizes);
  const states = (step: number) =>
    Float32Array.from({ length: 5000 - step }, (_, place) => Math.sin(step * 1e4 + place));
  for (let step = 0; step < 10; step++) {
    slots.write(step, states(step));
    for (const back of [0, 1, 2]) {
      if (step < back) continue;
      const wanted = states(step - back);
      expect(other.read(step - back, wanted.length)).toEqual(wanted);
    }
  }
  slots.close();
});

test("[PP9] the memory of hidden states has no name, and is taken at once where there is room", () => {
  const named = () => readdirSync("/dev/shm").filter((name) => name.startsWith("perigee-"));
  const before = named();
  const slots = HiddenSlots.create({ slots: 2, floatsPerSlot: 8 });
  expect(named()).toEqual(before);
  expect(() => slots.read(1, 9)).toThrow(/4 bytes of step 1 are missing/);
  slots.close();
  const sizes = { slots: 2, floatsPerSlot: 300_000 };
  expect(() => HiddenSlots.create(sizes, ["/nowhere"])).toThrow(
    /: 2400000 bytes in \/nowhere are wanted, ENOENT.*; make room there, or lower/,
  );
  const second = HiddenSlots.create(sizes, ["/nowhere", tmpdir()]);
  expect(fstatSync(second.fd).size).toBe(2_400_000);
  second.close();
  expect(() => slots.write(0, new Float32Array(4))).toThrow(
    /^Cannot pass hidden states to the next pipeline stage: .*lower pipeline.chunkTokens$/,
  );
});
