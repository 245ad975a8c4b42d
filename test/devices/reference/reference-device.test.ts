import { expect, test } from "vitest";
import { EngineError } from "#base";
import { ReferenceDevice } from "#devices";
import { activation, floats, read, tensorSource } from "./sources.ts";

const device = new ReferenceDevice();

test("rows of a tensor and of an activation share its memory", async () => {
  const tensor = floats(device, [3, 2], [1, 2, 3, 4, 5, 6]);
  device.write(device.rows(tensor, 1, 2), Float32Array.of(30, 40));
  expect(await read(device, tensor)).toEqual([1, 2, 30, 40, 5, 6]);
  const rows = activation(device, 3, 1, [1, 2, 3]);
  const x = floats(device, [1, 1], [20]);
  device.convert({ count: 1, out: device.activationRows(rows, 1, 2), x });
  expect(await read(device, rows)).toEqual([1, 20, 3]);
});

test("write starts at an offset and refuses what does not fit", async () => {
  const tensor = floats(device, [3], [1, 2, 3]);
  device.write(tensor, Float32Array.of(9), 2);
  expect(await read(device, tensor)).toEqual([1, 2, 9]);
  expect(() => device.write(tensor, Float32Array.of(1, 1), 2)).toThrow("Cannot write 2 elements");
  expect(() => device.write(tensor, Int32Array.of(1))).toThrow("Cannot write 1 elements");
});

test("what is read back is a copy", async () => {
  const tensor = floats(device, [1], [1]);
  const copy = await device.readF32(tensor);
  copy.fill(5);
  expect(await read(device, tensor)).toEqual([1]);
});

test("a loaded weight does not follow its file", async () => {
  const source = tensorSource("norm", [2], [1, 2]);
  const tensor = device.load(source);
  source.bytes().fill(0);
  expect(await read(device, tensor)).toEqual([1, 2]);
});

test("bytes of a matrix are those of its format", () => {
  const bytes = (format: "f32" | "i8") =>
    device.pack([tensorSource("w", [2, 130], Array<number>(260).fill(1))], { format }).bytes;
  expect(bytes("f32")).toBe(260 * 4);
  expect(bytes("i8")).toBe(260 + 2 * 2 * 4); // two groups a row
});

test("memory that cannot be had is OUT_OF_MEMORY", () => {
  const allocate = () => device.allocate("f32", [2 ** 40, 2 ** 10]);
  expect(allocate).toThrow(EngineError);
  expect(allocate).toThrow("Cannot allocate a tensor");
});
