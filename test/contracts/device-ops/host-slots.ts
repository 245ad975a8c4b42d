import { expect, test } from "vitest";
import type { Device, DeviceTensor, HostSlots, MovesMark } from "#devices";

const rows = 5;
const columns = 300;

/** Tensors that pass to another process: what `Device.openHostSlots` promises. */
export function hostSlots(open: () => Device): void {
  const values = (step: number, count = rows) =>
    Float32Array.from({ length: count * columns }, (_, place) => Math.fround(step + place / 7));
  const bytesPerSlot = rows * columns * 4;
  const memoryOf = (slots: number) =>
    Array.from({ length: slots }, () => new Uint8Array(bytesPerSlot).fill(255));
  const until = async (mark: MovesMark) => {
    while (!mark.isDone()) await new Promise((resolve) => setTimeout(resolve, 1));
  };

  test("[PP13] a tensor is in its slot as it was, whatever follows, and passes on", async () => {
    const device = open();
    const memory = memoryOf(3);
    const [out, into] = (["out", "in"] as const).map((way) => device.openHostSlots(memory, way));
    if (out === undefined || into === undefined) throw new Error("two ways are wanted");
    expect(out).toMatchObject({ direction: "out", slots: 3, bytesPerSlot });
    const tensor = device.allocate("f32", [rows, columns]);
    const other = device.allocate("f32", [rows, columns]);
    for (let step = 0; step < 7; step += 3) {
      const marks = [0, 1, 2].map((more) => {
        device.write(tensor, values(step + more));
        return device.putTensor(out, (step + more) % 3, tensor);
      });
      // The next step's ops.
      device.write(tensor, values(99));
      for (const mark of marks) await until(mark);
      const taken = [0, 1, 2].map((more) => {
        const mark = device.takeTensor(into, (step + more) % 3, other);
        return { mark, read: device.readF32(other) };
      });
      for (const [more, { mark, read }] of taken.entries()) {
        await until(mark);
        expect(await read).toEqual(values(step + more));
      }
    }
    for (const each of [out, into, tensor, other]) device.release(each);
  });

  test("[PP13] few rows take the beginning of a slot, and leave the rest", async () => {
    const device = open();
    const memory = memoryOf(2);
    const out = device.openHostSlots(memory, "out");
    const tensor = device.allocate("f32", [rows, columns]);
    device.write(tensor, values(4));
    await until(device.putTensor(out, 1, device.rows(tensor, 1, 3)));
    const floats = new Float32Array(memory[1]?.slice(0, 2 * columns * 4).buffer ?? []);
    expect(floats).toEqual(values(4).slice(columns, 3 * columns));
    expect(memory[1]?.subarray(2 * columns * 4).every((byte) => byte === 255)).toBe(true);
    expect(memory[0]?.every((byte) => byte === 255)).toBe(true);
    device.release(out);
    device.release(tensor);
  });

  test("[PP12] what does not fit is refused before memory is touched", () => {
    const device = open();
    const memory = memoryOf(2);
    const out = device.openHostSlots(memory, "out");
    const into = device.openHostSlots(memory, "in");
    const large = device.allocate("f32", [rows + 1, columns]);
    const small = device.rows(large, 0, rows);
    const refused: readonly (readonly [HostSlots, number, DeviceTensor, string])[] = [
      [out, 0, large, "Cannot use 7200 bytes of a slot of 6000"],
      [out, 2, small, "Cannot use slot 2 of 2"],
      [into, 0, small, "Cannot pass a tensor out by slots that go in"],
    ];
    for (const [slots, slot, tensor, message] of refused) {
      expect(() => device.putTensor(slots, slot, tensor)).toThrow(message);
    }
    expect(() => device.takeTensor(into, -1, small)).toThrow("Cannot use slot -1 of 2");
    expect(() => device.takeTensor(out, 0, small)).toThrow("go out");
    expect(() => device.openHostSlots([], "in")).toThrow("some of one size wanted");
    expect(memory.every((slot) => slot.every((byte) => byte === 255))).toBe(true);
    for (const each of [out, into, large]) device.release(each);
  });
}
