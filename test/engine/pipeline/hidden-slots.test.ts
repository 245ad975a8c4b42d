import { fstatSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { describe, expect, test } from "vitest";
import { HiddenSlots } from "../../../src/engine/pipeline/hidden-slots.ts";

const PLACES = {
  mapped: { maps: true, folders: ["/nowhere"] },
  "a file": { maps: false, folders: ["/dev/shm", tmpdir()] },
} as const;

describe.each(["mapped", "a file"] as const)("[PP9] hidden states in slots, %s", (kind) => {
  const places = PLACES[kind];

  test("are seen as they were shown, by each that has the descriptor", () => {
    const sizes = { slots: 3, bytesPerSlot: 70_004 };
    const slots = HiddenSlots.create(sizes, places);
    const other = HiddenSlots.inherit(slots.fd, sizes, places);
    const states = (step: number) =>
      Uint8Array.from({ length: 70_000 - step }, (_, place) => (step * 31 + place * 7) & 255);
    for (let step = 0; step < 10; step++) {
      slots.memory[step % 3]?.set(states(step));
      slots.show(step % 3, 70_000 - step);
      for (const back of [0, 1, 2]) {
        if (step < back) continue;
        const wanted = states(step - back);
        other.look((step - back) % 3, wanted.length);
        const seen = other.memory[(step - back) % 3]?.subarray(0, wanted.length);
        expect(Buffer.compare(seen ?? wanted.subarray(1), wanted)).toBe(0);
      }
    }
    slots.close();
  });

  test("have no name, and their room is taken at once", () => {
    const named = () => readdirSync("/dev/shm").filter((name) => name.startsWith("perigee-"));
    const before = named();
    const sizes = { slots: 2, bytesPerSlot: 300_000 };
    const slots = HiddenSlots.create(sizes, places);
    expect(named()).toEqual(before);
    const { size, blocks } = fstatSync(slots.fd);
    expect(size).toBe(2 * 5 * 65_536);
    expect(blocks * 512).toBeGreaterThanOrEqual(size);
    slots.close();
    expect(() => fstatSync(slots.fd)).toThrow("EBADF");
  });

  test("[PP12] nothing is touched beyond them", () => {
    const sizes = { slots: 2, bytesPerSlot: 8 };
    const slots = HiddenSlots.create(sizes, places);
    for (const use of ["show", "look"] as const) {
      expect(() => slots[use](2, 8)).toThrow("Cannot use slot 2 of 2");
      expect(() => slots[use](-1, 8)).toThrow("Cannot use slot -1 of 2");
      expect(() => slots[use](1, 9)).toThrow("Cannot use 9 bytes of a slot of 8");
    }
    slots.close();
  });

  test("are let go of before they end", () => {
    const slots = HiddenSlots.create({ slots: 1, bytesPerSlot: 16 }, places);
    const seen: number[] = [];
    slots.beforeClose(() => seen.push(slots.memory[0]?.[3] ?? -1));
    slots.memory[0]?.fill(7);
    slots.close();
    expect(seen).toEqual([7]);
  });
});

test("[PP9] where there is no room, the error says where it is wanted", () => {
  const sizes = { slots: 2, bytesPerSlot: 300_000 };
  const nowhere = { maps: false, folders: ["/nowhere"] };
  expect(() => HiddenSlots.create(sizes, nowhere)).toThrow(
    /: 655360 bytes in \/nowhere are wanted, ENOENT.*; make room there, or lower/,
  );
  const second = HiddenSlots.create(sizes, { maps: false, folders: ["/nowhere", tmpdir()] });
  second.close();
  expect(() => second.show(0, 4)).toThrow(
    /^Cannot pass hidden states to the next pipeline stage: .*lower pipeline.chunkTokens$/,
  );
});

test("[PP12] a descriptor that has fewer bytes is not mapped", () => {
  const slots = HiddenSlots.create({ slots: 1, bytesPerSlot: 16 }, PLACES.mapped);
  const other = HiddenSlots.inherit(slots.fd, { slots: 2, bytesPerSlot: 16 });
  expect(() => other.look(1, 16)).toThrow("16 bytes of slot 1 are missing");
  slots.close();
});
