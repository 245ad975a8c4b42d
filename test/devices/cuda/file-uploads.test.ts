/** Files on their way to the emulated GPU, read by threads of the build. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CudaSession } from "../../../src/devices/cuda/cuda-session.ts";
import { CudaMemory } from "../../../src/devices/cuda/memory/memory.ts";
import { FileUploads } from "../../../src/devices/cuda/weights/file-uploads.ts";
import { canReadOnThreads, ReadPool } from "../../../src/devices/cuda/weights/read-pool.ts";
import { emulatedSettings } from "./emulated-device.ts";

const settings = emulatedSettings();

describe.skipIf(settings === null || !canReadOnThreads())("files to an emulated GPU", () => {
  const folder = mkdtempSync(join(tmpdir(), "perigee-files-"));
  const path = join(folder, "weights");
  /** More than all cells hold, and not a multiple of one. */
  const contents = new Uint32Array(14_000_003).map((_, i) => Math.imul(i, 2_654_435_761));
  let session: CudaSession;
  beforeAll(async () => {
    writeFileSync(path, contents);
    session = await CudaSession.open({ settings: settings ?? {} });
  });
  afterAll(() => {
    session.dispose();
    rmSync(folder, { recursive: true });
  });

  const read = (address: bigint, count: number) => {
    const out = new Uint32Array(count);
    session.staging.download(out, address);
    return out;
  };

  test("arrive whole, from any place on, one after the other", () => {
    const address = session.memory.allocate(contents.byteLength, "a file");
    for (const first of [0, 3, 5_000_000, 13_999_999]) {
      const bytes = contents.byteLength - 4 * first;
      session.files.upload(address, { path, start: 4 * first, bytes });
      const found = Buffer.from(read(address, bytes / 4).buffer);
      expect(found.equals(Buffer.from(contents.slice(first).buffer))).toBe(true);
    }
  });

  test("that end too early, or are gone, are told of, and the next one arrives", () => {
    const address = session.memory.allocate(8 << 20, "a file");
    const end = contents.byteLength;
    const part = { path, start: end - 100, bytes: 5 << 20 };
    expect(() => session.files.upload(address, part)).toThrow(
      expect.objectContaining({ code: "CHECKPOINT_INVALID" }),
    );
    expect(() => session.files.upload(address, { ...part, path: folder })).toThrow("refused");
    session.files.upload(address, { path, start: 8, bytes: 12 });
    expect([...read(address, 3)]).toEqual([...contents.slice(2, 5)]);
  });

  test("whose disk does not answer leave their pinned memory to the reads that hang", () => {
    const { driver, stream } = session;
    const memory = new CudaMemory(driver, stream);
    const warnings: string[] = [];
    let hangs = true;
    const uploads = new FileUploads({
      ...{ driver, memory, stream, warn: (message) => warnings.push(message) },
      // Without threads no read ever ends.
      startPool: (options) =>
        new ReadPool(hangs ? { ...options, threads: 0, waitMsMax: 20 } : options),
    });
    const kept: bigint[] = [];
    const { abandon } = memory;
    memory.abandon = (address) => {
      kept.push(address);
      abandon.call(memory, address);
    };
    const address = memory.allocate(12 << 20, "a file");
    const part = { path, start: 0, bytes: 12 << 20 };
    expect(() => uploads.upload(address, part)).toThrow("does not answer");
    // Of all cells only those that were asked for may still be written to.
    expect(kept.length).toBeGreaterThan(0);
    expect(kept.length).toBeLessThanOrEqual(3);
    expect(memory.abandons).toBe(true);
    expect(warnings).toEqual([expect.stringMatching(/pinned memory stay with file reads/)]);
    for (const each of kept) expect(() => memory.release(each)).toThrow("not allocated");

    // Later files are read by new threads, and what is disposed of is not what was left.
    hangs = false;
    uploads.upload(address, part);
    expect([...read(address, 3)]).toEqual([...contents.slice(0, 3)]);
    uploads.close();
    memory.dispose();
    expect(warnings).toHaveLength(1);
  });

  test("that cannot be copied are told of when no read is under way, and the next one arrives", () => {
    const { driver, memory, stream } = session;
    let fails = true;
    const run = (...call: Parameters<typeof driver.run>) => {
      if (fails && call[0] === "cuMemcpyHtoDAsync") throw new Error("no copy");
      driver.run(...call);
    };
    const failing: typeof driver = Object.assign(Object.create(driver), { run });
    const uploads = new FileUploads({ driver: failing, memory, stream });
    const address = memory.allocate(12 << 20, "a file");
    const part = { path, start: 0, bytes: 12 << 20 };
    for (let i = 0; i < 2; i++) expect(() => uploads.upload(address, part)).toThrow("no copy");
    fails = false;
    uploads.upload(address, { ...part, start: 12 });
    expect([...read(address, 3)]).toEqual([...contents.slice(3, 6)]);
    uploads.close();
  });

  test("begin anew after the threads were let go", () => {
    const address = session.memory.allocate(16, "a file");
    session.files.close();
    session.files.upload(address, { path, start: 0, bytes: 8 });
    expect([...read(address, 2)]).toEqual([...contents.slice(0, 2)]);
  });
});
