import { closeSync, ftruncateSync, openSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openFileBytes } from "../../src/checkpoint/mapped-file.ts";
import { scratchFolder } from "./scratch-folder.ts";

function written(bytes: Uint8Array): string {
  const path = join(scratchFolder(), "file.bin");
  writeFileSync(path, bytes);
  return path;
}

const content = Uint8Array.from({ length: 300_000 }, (_, at) => (at * 7) % 251);

describe.each([
  ["mapped", {}],
  ["read", { memoryMap: null }],
] as const)("a %s file", (_kind, options) => {
  test("gives the bytes of any range, at an offset that tells the true alignment", () => {
    const file = openFileBytes(written(content), options);
    expect(file.sizeBytes).toBe(content.length);
    for (const [start, end] of [
      [0, 10],
      [63, 64],
      [65_537, 200_001],
      [299_999, 300_000],
    ] as const) {
      const bytes = file.read(start, end);
      expect(Buffer.compare(bytes, content.subarray(start, end))).toBe(0);
      expect(bytes.byteOffset).toBe(start % 64);
    }
    expect(file.read(5, 5)).toHaveLength(0);
    file.close();
  });

  test("gives the same bytes after they were discarded", () => {
    const file = openFileBytes(written(content), options);
    const before = Uint8Array.from(file.read(1000, 299_000));
    file.discard(1000, 299_000);
    expect(Buffer.compare(file.read(1000, 299_000), before)).toBe(0);
    file.close();
  });

  test("of no bytes is opened and closed", () => {
    const file = openFileBytes(written(new Uint8Array(0)), options);
    expect(file.sizeBytes).toBe(0);
    expect(file.read(0, 0)).toHaveLength(0);
    file.close();
    file.close();
  });

  test("that was cut off while it was open is refused, not touched", () => {
    const path = written(content);
    const file = openFileBytes(path, options);
    expect(file.read(0, 10)).toHaveLength(10);
    truncateSync(path, 100_000);
    for (const [start, end] of [
      [200_000, 200_010],
      [0, 300_000],
    ] as const) {
      expect(() => file.read(start, end)).toThrow(
        expect.objectContaining({
          code: "CHECKPOINT_INVALID",
          message: expect.stringContaining("became shorter while it was open"),
        }),
      );
    }
    file.close();
  });

  test("that is closed gives nothing", () => {
    const file = openFileBytes(written(content), options);
    file.close();
    expect(() => file.read(0, 1)).toThrow("is closed");
  });
});

test("two views of a mapped file are the file's own memory, not copies", () => {
  const size = 64 * 2 ** 20;
  const path = written(new Uint8Array(0));
  const descriptor = openSync(path, "r+");
  ftruncateSync(descriptor, size);
  closeSync(descriptor);
  const file = openFileBytes(path);
  const before = process.memoryUsage().rss;
  for (let view = 0; view < 100; view++) expect(file.read(0, size)).toHaveLength(size);
  expect(process.memoryUsage().rss - before).toBeLessThan(size);
  file.close();
});

test("a path that is absent or a directory is refused with its name", () => {
  const folder = scratchFolder();
  expect(() => openFileBytes(join(folder, "absent.gguf"))).toThrow(
    expect.objectContaining({ code: "MODEL_NOT_FOUND" }),
  );
  expect(() => openFileBytes(folder)).toThrow(expect.objectContaining({ code: "IO" }));
});
