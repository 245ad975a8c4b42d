import fc from "fast-check";
import { expect, test } from "vitest";
import { bytesOfText, isSizeFlag, sizeProblem, sizeText } from "../../src/cli/byte-size.ts";

test.for<[string, number]>([
  ["1073741824", 2 ** 30],
  ["1e9", 1e9],
  ["-1", -1],
  ["1GiB", 2 ** 30],
  ["1 GiB", 2 ** 30],
  ["1gib", 2 ** 30],
  ["2GB", 2e9],
  ["1.5GiB", 1.5 * 2 ** 30],
  ["512MiB", 2 ** 29],
  ["10KB", 10_000],
  ["0.1KiB", 102],
  ["7B", 7],
  ["2TiB", 2 ** 41],
])("%s is %d bytes", ([text, bytes]) => {
  expect(bytesOfText(text)).toBe(bytes);
});

test.for(["", "GiB", "1GiBs", "1G", "one GiB", "1,5GiB", "1PiB", "Infinity", "-1GiB", "1 0GiB"])(
  "%j is no size",
  (text) => {
    expect(bytesOfText(text)).toBeNull();
  },
);

test("a letter alone may mean either unit, which is said", () => {
  expect(sizeProblem("4g")).toContain("4G could be 4GB or 4GiB");
  expect(sizeProblem("4 miles")).not.toContain("could be");
});

test("a size's text is that size", () => {
  fc.assert(
    fc.property(
      fc.nat({ max: 2 ** 31 - 1 }),
      fc.constantFrom(1, 2 ** 10, 2 ** 20),
      (count, unit) => {
        expect(bytesOfText(sizeText(count * unit))).toBe(count * unit);
      },
    ),
  );
});

test("flags of bytes are told from flags of their speed", () => {
  expect(["kv-pool-bytes", "request-bytes-max", "text-memory-bytes"].every(isSizeFlag)).toBe(true);
  expect(["host-bytes-per-ms", "block-tokens", "bytesize"].some(isSizeFlag)).toBe(false);
});
