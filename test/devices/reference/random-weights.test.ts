import { expect, test } from "vitest";
import { type Device, type PackOptions, ReferenceDevice, randomSource } from "#devices";
import { decodeFloats } from "#tensor";
import { describeEmulated } from "../cuda/describe-emulated.ts";
import { openEmulated } from "../cuda/emulated-device.ts";
import { integers } from "./sources.ts";

const random = { seed: { low: 0xfedcba98, high: 7 }, range: Math.fround(0.3) };
/** Neither extent a multiple of the four elements that are made at a time. */
const sources = [randomSource("a", [5, 37], random), randomSource("b", [2, 37], random)];

test("random elements are spread evenly, and a prefix is a prefix of more", () => {
  const elements = (count: number) =>
    decodeFloats(randomSource("a", [count], random).bytes(), "bf16");
  const many = elements(40_000);
  expect(elements(7)).toEqual(many.slice(0, 7));
  const mean = many.reduce((sum, value) => sum + value, 0) / many.length;
  const square = many.reduce((sum, value) => sum + value * value, 0) / many.length;
  expect(Math.abs(mean)).toBeLessThan(0.005);
  expect(Math.sqrt(square * 3)).toBeCloseTo(random.range, 2);
  expect(Math.max(...many)).toBeLessThanOrEqual(0.301);
});

/** All rows of the matrix that `sources` become. */
async function packedRows(device: Device, options: PackOptions): Promise<Float32Array> {
  const matrix = device.pack(options.transposed ? sources.slice(0, 1) : sources, options);
  const { rows, columns } = matrix;
  const out = device.allocate("f32", [rows, columns]);
  const ids = integers(
    device,
    Array.from({ length: rows }, (_, row) => row),
  );
  device.embed({ count: rows, out, ids, table: matrix });
  return device.readF32(out);
}

describeEmulated("on an emulated GPU", openEmulated, (device) => {
  test.for<PackOptions>([
    { format: "f32" },
    { format: "bf16" },
    { format: "i8" },
    { format: "bf16", transposed: true },
  ])("elements made there are those that bytes have: %o", async (options) => {
    const wanted = await packedRows(new ReferenceDevice(), options);
    expect(await packedRows(device, options)).toEqual(wanted);
  });

  test("so are those of a table", async () => {
    const source = randomSource("table", [3, 5], random);
    const table = await device.readF32(device.load(source));
    expect(table).toEqual(decodeFloats(source.bytes(), "bf16"));
  });
});
