/** Files on their way to the emulated GPU, read by threads of the build. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CudaSession } from "../../../src/devices/cuda/cuda-session.ts";
import { canReadOnThreads } from "../../../src/devices/cuda/read-pool.ts";
import { emulatedSettings } from "./emulated-device.ts";

const settings = emulatedSettings();

describe.skipIf(settings === null || !canReadOnThreads())("files to an emulated GPU", () => {
  const folder = mkdtempSync(join(tmpdir(), "perigee-files-"));
  const path = join(folder, "weights");
  /** More than all slots hold, and not a multiple of one. */
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

  test("begin anew after the threads were let go", () => {
    const address = session.memory.allocate(16, "a file");
    session.files.close();
    session.files.upload(address, { path, start: 0, bytes: 8 });
    expect([...read(address, 2)]).toEqual([...contents.slice(0, 2)]);
  });
});
