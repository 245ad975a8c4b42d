import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { ReaderProcess, type ReadJob, type ReadLimits } from "#rag/readers";
import { folder } from "../ingest/ingest-cases.ts";

const LIMITS: ReadLimits = { seconds: 20, memoryBytes: 2 ** 30 };

function processOf(limits: Partial<ReadLimits> = {}): ReaderProcess {
  const process = new ReaderProcess({ ...LIMITS, ...limits });
  onTestFinished(() => process.close());
  return process;
}

function job(path: string, bytesMax = 2 ** 26): ReadJob {
  return { ...{ id: "x", name: path, path, bytes: null, mediaType: null, bytesMax } };
}

async function count(process: ReaderProcess, one: ReadJob): Promise<number> {
  let documents = 0;
  for await (const _ of process.read(one, () => true)) documents++;
  return documents;
}

describe("ReaderProcess", () => {
  it("[RG37] fails a file of too many bytes, also one whose size says nothing, and reads the next", async () => {
    const base = folder({ "long.txt": "x".repeat(101), "a.txt": "x".repeat(100) });
    const process = processOf();
    for (const path of [join(base, "long.txt"), "/proc/self/maps"]) {
      await expect(count(process, job(path, 100))).rejects.toMatchObject({
        code: "INVALID_ARGUMENT",
        message: expect.stringContaining("at most 100 bytes (fileBytesMax)"),
      });
    }
    expect(await count(process, job(join(base, "a.txt"), 100))).toBe(1);
  });

  it("[RG37] fails a file that takes too long, at once, and reads the next", async () => {
    const base = folder({ "a.txt": "text" });
    writeFileSync(join(base, "slow.md"), Buffer.alloc(60 * 2 ** 20, "- *item*\n"));
    const process = processOf({ seconds: 1 });
    await expect(count(process, job(join(base, "slow.md")))).rejects.toMatchObject({
      message: 'Cannot read "x": reading must take at most 1 s (fileSeconds), it took more',
    });
    expect(await count(process, job(join(base, "a.txt")))).toBe(1);
  });

  it("[RG37] fails a file that takes too much memory, and reads the next", async () => {
    const base = folder({ "a.txt": "text" });
    writeFileSync(join(base, "wide.txt"), Buffer.alloc(100 * 2 ** 20, "word "));
    const process = processOf({ memoryBytes: 150 * 2 ** 20 });
    await expect(count(process, job(join(base, "wide.txt"), 2 ** 28))).rejects.toMatchObject({
      message: expect.stringContaining("(readerMemoryBytes), it took more"),
    });
    expect(await count(process, job(join(base, "a.txt")))).toBe(1);
  });

  it("[RG36] does not wait for a pipe that took a file's place", async () => {
    const base = folder();
    execFileSync("mkfifo", [join(base, "pipe")]);
    await expect(count(processOf(), job(join(base, "pipe")))).rejects.toMatchObject({ code: "IO" });
  });

  it("gives nothing of a file that is not wanted", async () => {
    const base = folder({ "a.txt": "text" });
    const process = processOf();
    const hashes: string[] = [];
    const content = process.read(job(join(base, "a.txt")), (hash) => {
      hashes.push(hash);
      return false;
    });
    expect(await content.next()).toEqual({ value: undefined, done: true });
    expect(hashes).toEqual(["982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"]);
  });
});
