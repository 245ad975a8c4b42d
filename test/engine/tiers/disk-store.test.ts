import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test as plain } from "vitest";
import { systemClock, systemTimer } from "#base";
import type { BlockFile } from "#kvcache";
import { type DiskFiles, systemFiles } from "../../../src/engine/tiers/disk-files.ts";
import type { DiskStoreOptions } from "../../../src/engine/tiers/disk-options.ts";
import { DiskStore, type OpenedStore } from "../../../src/engine/tiers/disk-store.ts";

const BYTES = 4096;
const FINGERPRINT = "0123456789abcdef0123456789abcdef";

interface Bench {
  readonly dir: string;
  readonly folder: string;
  readonly warnings: string[];
  open(options?: Partial<DiskStoreOptions>): Promise<OpenedStore>;
  tryOpen(options?: Partial<DiskStoreOptions>): Promise<OpenedStore | null>;
}

/** A folder of its own for each test. */
const test = plain.extend<{ bench: Bench }>({
  bench: async ({ task }, use) => {
    const dir = mkdtempSync(join(tmpdir(), `perigee-disk-${task.id}-`));
    const warnings: string[] = [];
    const tryOpen = (options: Partial<DiskStoreOptions> = {}) =>
      DiskStore.open({
        dir,
        fingerprint: FINGERPRINT,
        hashRule: "sha256_cbor",
        blockTokens: 4,
        bytesPerBlock: BYTES,
        capacityBlocks: 100,
        clock: systemClock,
        timer: systemTimer,
        warn: (message) => warnings.push(message),
        ...options,
      });
    const open = async (options?: Partial<DiskStoreOptions>) => {
      const opened = await tryOpen(options);
      if (opened === null) throw new Error(warnings.join("\n"));
      return opened;
    };
    const folder = join(dir, `${FINGERPRINT}-sha256_cbor`);
    await use({ dir, folder, warnings, open, tryOpen });
    rmSync(dir, { recursive: true, force: true });
  },
});

const keyOf = (index: number) => index.toString(16).padStart(4, "0").repeat(16);

/** The `index`-th block of one long history. */
function block(index: number): BlockFile {
  return {
    key: keyOf(index),
    parentKey: index === 0 ? null : keyOf(index - 1),
    scope: "",
    extra: "",
    tokens: Int32Array.from({ length: 4 }, (_, at) => index * 4 + at),
    priority: 35,
  };
}

const payloadOf = (index: number) =>
  Uint8Array.from({ length: BYTES }, (_, at) => (at * 31 + index * 17) % 251);

const pathIn = (folder: string, index: number) =>
  join(folder, keyOf(index).slice(0, 2), `${keyOf(index)}.kv`);

async function fill(store: DiskStore, count: number): Promise<void> {
  const all = Array.from({ length: count }, (_, i) => store.write(block(i), payloadOf(i)));
  expect(await Promise.all(all)).toEqual(all.map(() => true));
}

async function readBack(store: DiskStore, index: number): Promise<Uint8Array | null> {
  const into = new Uint8Array(BYTES);
  return (await store.read(block(index), into)) === "read" ? into : null;
}

test("what was written is read again, in this run and in the next one", async ({ bench }) => {
  const first = await bench.open();
  expect(first.survivors).toEqual([]);
  await fill(first.store, 20);
  expect(await readBack(first.store, 7)).toEqual(payloadOf(7));
  await first.store.close();

  const second = await bench.open();
  expect(second.survivors.map(({ file }) => file)).toEqual(
    Array.from({ length: 20 }, (_, index) => block(index)),
  );
  for (let i = 0; i < 20; i++) expect(await readBack(second.store, i)).toEqual(payloadOf(i));
  expect(second.store.stats().reads).toMatchObject({ count: 20, bytes: 20 * BYTES, failures: 0 });
  expect(bench.warnings).toEqual([]);
  await second.store.close();
});

test("folders and files are their owner's alone", async ({ bench }) => {
  const { store } = await bench.open();
  await fill(store, 1);
  const path = pathIn(bench.folder, 0);
  expect(statSync(bench.folder).mode & 0o777).toBe(0o700);
  expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  await store.close();
});

test("a block that was removed is gone, and one that was never there is no", async ({ bench }) => {
  const { store } = await bench.open();
  await fill(store, 2);
  expect(await store.remove(keyOf(1))).toBe(true);
  expect(await store.remove(keyOf(9))).toBe(true);
  expect(await readBack(store, 1)).toBeNull();
  expect(bench.warnings).toEqual([expect.stringContaining("another program removed it")]);
  await store.close();
});

test("calls with one key take effect in the order in which they were made", async ({ bench }) => {
  const { store } = await bench.open();
  const into = new Uint8Array(BYTES);
  const results = await Promise.all([
    store.write(block(0), payloadOf(0)),
    store.remove(keyOf(0)),
    store.read(block(0), into),
    store.write(block(0), payloadOf(5)),
    store.read(block(0), into),
  ]);
  expect(results).toEqual([true, true, "gone", true, "read"]);
  expect(into).toEqual(payloadOf(5));
  await store.close();
});

test("a file that was changed anywhere is not read, is removed, and leaves a line", async ({
  bench,
}) => {
  const { store } = await bench.open();
  await fill(store, 1);
  const path = pathIn(bench.folder, 0);
  const whole = readFileSync(path);
  const headerBytes = whole.length - BYTES;
  const places = [...Array(headerBytes).keys(), headerBytes, headerBytes + 777, whole.length - 1];
  for (const place of places) {
    const damaged = Buffer.from(whole);
    damaged.writeUInt8(damaged.readUInt8(place) ^ 0x40, place);
    // Bytes 24 to 27 hold the priority, which may differ; their checksum does not let them.
    writeFileSync(path, damaged);
    expect(await readBack(store, 0), `byte ${place}`).toBeNull();
    expect(existsSync(path)).toBe(false);
  }
  // A few are told one by one, the others are counted: paced-warnings.ts.
  expect(bench.warnings).toHaveLength(Math.min(3, places.length));
  expect(bench.warnings[0]).toMatch(/^Removed .* from the disk cache: its header is not/);
  expect(store.stats().damaged).toBe(places.length);
  await store.close();
});

test("a file that was cut short, emptied or grown is not read", async ({ bench }) => {
  const { store } = await bench.open();
  const path = pathIn(bench.folder, 0);
  for (const length of [0, 1, 35, 200, BYTES, BYTES + 400, 10 * BYTES]) {
    await fill(store, 1);
    truncateSync(path, length);
    expect(await readBack(store, 0), `${length} bytes`).toBeNull();
    expect(existsSync(path)).toBe(false);
  }
  await store.close();
});

test("a file that holds another block is not taken for the one that was asked for", async ({
  bench,
}) => {
  const { store } = await bench.open();
  await fill(store, 2);
  writeFileSync(pathIn(bench.folder, 0), readFileSync(pathIn(bench.folder, 1)));
  expect(await readBack(store, 0)).toBeNull();
  const other = { ...block(1), tokens: Int32Array.of(9, 9, 9, 9) };
  expect(await store.read(other, new Uint8Array(BYTES))).toBe("gone");
  await store.close();
});

test("opening removes what is damaged and keeps what is not", async ({ bench }) => {
  const first = await bench.open();
  await fill(first.store, 16);
  await first.store.close();
  const sizes = [0, 3, 36, 100, BYTES];
  for (const [index, size] of sizes.entries()) truncateSync(pathIn(bench.folder, 15 - index), size);
  const lying = readFileSync(pathIn(bench.folder, 10));
  lying.writeUInt32LE(2 ** 32 - 1, 12);
  writeFileSync(pathIn(bench.folder, 10), lying);
  writeFileSync(pathIn(bench.folder, 200), Buffer.alloc(BYTES + 300, 1));
  writeFileSync(join(bench.folder, "00", "nonsense.kv"), "x");

  const second = await bench.open();
  expect(second.survivors).toHaveLength(10);
  expect(bench.warnings).toHaveLength(6);
  expect(bench.warnings.at(-1)).toMatch(/^Removed 3 more files of the disk cache/);
  expect(readdirSync(join(bench.folder, "00"))).toHaveLength(10);
  await second.store.close();
});

test("payloads are not read at opening: damage there is found when the block is wanted", async ({
  bench,
}) => {
  const first = await bench.open();
  await fill(first.store, 1);
  await first.store.close();
  const bytes = readFileSync(pathIn(bench.folder, 0));
  bytes.writeUInt8(bytes.readUInt8(bytes.length - 5) ^ 1, bytes.length - 5);
  writeFileSync(pathIn(bench.folder, 0), bytes);
  const second = await bench.open();
  expect(second.survivors).toHaveLength(1);
  expect(await readBack(second.store, 0)).toBeNull();
  expect(bench.warnings).toEqual([expect.stringContaining("its contents fail the checksum")]);
  await second.store.close();
});

test("what a killed process left half-written is removed, and so is what it had not renamed", async ({
  bench,
}) => {
  const first = await bench.open();
  await fill(first.store, 3);
  await first.store.close();
  const path = pathIn(bench.folder, 3);
  writeFileSync(`${path}.0.tmp`, Buffer.alloc(100));
  writeFileSync(`${pathIn(bench.folder, 4)}.1.tmp`, readFileSync(pathIn(bench.folder, 0)));
  const second = await bench.open();
  expect(second.survivors).toHaveLength(3);
  expect(readdirSync(dirname(path)).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  expect(bench.warnings).toEqual([]);
  await second.store.close();
});

test("pipes, links and folders in place of files neither hang nor mislead the store", async ({
  bench,
}) => {
  const first = await bench.open();
  await fill(first.store, 1);
  const outside = join(bench.dir, "outside");
  writeFileSync(outside, readFileSync(pathIn(bench.folder, 0)));
  rmSync(pathIn(bench.folder, 0));
  symlinkSync(outside, pathIn(bench.folder, 0));
  execFileSync("mkfifo", [pathIn(bench.folder, 1)]);
  mkdirSync(pathIn(bench.folder, 2));
  expect(await readBack(first.store, 1)).toBeNull();
  execFileSync("mkfifo", [pathIn(bench.folder, 1)]);
  await first.store.close();
  const second = await bench.open();
  expect(second.survivors).toEqual([]);
  expect(existsSync(outside)).toBe(true);
  expect(bench.warnings.filter((line) => line.startsWith("Ignored"))).toHaveLength(1);
  await second.store.close();
});

test("beyond its capacity an opened store keeps heads and young tails", async ({ bench }) => {
  const first = await bench.open();
  await fill(first.store, 10);
  await first.store.close();
  for (let i = 0; i < 10; i++) utimesSync(pathIn(bench.folder, i), 1000 + i, 1000 + i);
  const second = await bench.open({ capacityBlocks: 4 });
  expect(second.survivors.map(({ file }) => file.key)).toEqual([0, 1, 2, 3].map(keyOf));
  expect(readdirSync(join(bench.folder, "00"))).toHaveLength(4);
  expect(bench.warnings).toEqual([expect.stringContaining("kept 4 blocks of an earlier run")]);
  await second.store.close();
});

test("another model's folder stays as it is, with one line that tells its size", async ({
  bench,
}) => {
  const other = await bench.open({ fingerprint: "f".repeat(32) });
  await fill(other.store, 5);
  await other.store.close();
  const rule = await bench.open({ hashRule: "v1_block_key" });
  await rule.store.close();
  bench.warnings.length = 0;
  const { store, survivors } = await bench.open();
  expect(survivors).toEqual([]);
  expect(bench.warnings).toEqual([expect.stringContaining("2 folders of other models")]);
  await store.close();
  const again = await bench.open({ fingerprint: "f".repeat(32) });
  expect(again.survivors).toHaveLength(5);
  await again.store.close();
});

test("a second store on one folder stays off, names the first one, and gets the folder after it", async ({
  bench,
}) => {
  const { store } = await bench.open();
  expect(await bench.tryOpen()).toBeNull();
  expect(bench.warnings).toEqual([expect.stringContaining(`process ${process.pid}`)]);
  await store.close();
  const next = await bench.open();
  await next.store.close();
});

test("the lock of a process that was killed does not hold", async ({ bench }) => {
  const { store } = await bench.open();
  await store.close();
  // What a killed process leaves: the file with its number, but not the system's lock.
  writeFileSync(join(bench.folder, "lock"), "1\n");
  const next = await bench.open();
  await next.store.close();
});

test("a folder that cannot be made turns the level off with one line", async ({ bench }) => {
  const file = join(bench.dir, "file");
  writeFileSync(file, "");
  expect(await bench.tryOpen({ dir: file })).toBeNull();
  expect(bench.warnings).toHaveLength(1);
  expect(bench.warnings[0]).toMatch(/^Cannot use the disk cache: .* it stays off/);
});

const isRoot = process.getuid?.() === 0;

test.skipIf(isRoot)("an unreadable folder turns the level off with one line", async ({ bench }) => {
  const { store } = await bench.open();
  await store.close();
  chmodSync(bench.folder, 0o000);
  onTestFinished(() => chmodSync(bench.folder, 0o700));
  expect(await bench.tryOpen()).toBeNull();
  expect(bench.warnings).toHaveLength(1);
});

function failure(code: string): Error {
  return Object.assign(new Error(`${code}: made by a test`), { code });
}

test.for(["list", "makeFolder"] as const)(
  "a failing %s at the start turns the level off",
  async (operation, { bench }) => {
    const files = { ...systemFiles, [operation]: () => Promise.reject(failure("EACCES")) };
    expect(await bench.tryOpen({ files })).toBeNull();
    expect(bench.warnings).toEqual([expect.stringContaining("EACCES")]);
    const { store } = await bench.open();
    await store.close();
  },
);

test("a folder that no folder can be made in turns the level off at once", async ({ bench }) => {
  expect(await bench.tryOpen({ dir: "/proc/nope" })).toBeNull();
  expect(bench.warnings).toEqual([expect.stringMatching(/^Cannot use the disk cache: .*ENOENT/)]);
});

test("folders above the store are made, and are their owner's alone", async ({ bench }) => {
  const dir = join(bench.dir, "a", "b");
  const { store } = await bench.open({ dir });
  expect(statSync(join(bench.dir, "a")).mode & 0o777).toBe(0o700);
  await store.close();
});

test("a folder that does not answer is told of, then given up", async ({ bench }) => {
  const waits: { ms: number; run: () => void }[] = [];
  const timer = {
    after: (ms: number, run: () => void) => {
      waits.push({ ms, run });
      return () => {};
    },
  };
  let answer = () => {};
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const files: DiskFiles = {
    ...systemFiles,
    list: (path) => answered.then(() => systemFiles.list(path)),
  };
  const opening = bench.tryOpen({ timer, files });
  const [notice, limit] = waits;
  notice?.run();
  expect(bench.warnings).toEqual([`Disk cache: still opening ${bench.folder}`]);
  limit?.run();
  expect(await opening).toBeNull();
  expect(bench.warnings.at(-1)).toContain("must open within 180 seconds");
  // When it answers after all, its lock is for others.
  answer();
  const later: OpenedStore[] = [];
  const tryAgain = async () => {
    const found = await bench.tryOpen();
    if (found !== null) later.push(found);
    return later.length;
  };
  await expect.poll(tryAgain).toBe(1);
  await later[0]?.store.close();
});

test.for(["ENOSPC", "EIO", "EROFS"])(
  "after %s writing pauses, reading goes on, and it recovers",
  async (code, { bench }) => {
    let full = false;
    let now = 0;
    const clock = { nowMs: () => now };
    const files: DiskFiles = {
      ...systemFiles,
      create: async (path, parts) => {
        if (!full) return systemFiles.create(path, parts);
        // A disk runs full in the middle of a file.
        await systemFiles.create(path, [Buffer.alloc(10)]);
        throw failure(code);
      },
    };
    const { store } = await bench.open({ files, clock });
    await fill(store, 2);
    full = true;
    for (let i = 2; i < 60; i++) expect(await store.write(block(i), payloadOf(i))).toBe(false);
    expect(bench.warnings).toEqual([expect.stringContaining(code)]);
    expect(store.stats().writes.failures).toBe(3);
    expect(store.stats().skippedWrites).toBe(55);
    expect(await readBack(store, 1)).toEqual(payloadOf(1));
    expect(readdirSync(join(bench.folder, "00"))).toHaveLength(2);

    full = false;
    let tries = 0;
    while (!(await store.write(block(2), payloadOf(2)))) tries++;
    expect(tries).toBeLessThan(64);
    // Files that were removed meanwhile made room for one: it may be full again at once.
    expect(bench.warnings).toHaveLength(1);
    now += 30_000;
    expect(await store.write(block(3), payloadOf(3))).toBe(true);
    expect(bench.warnings).toHaveLength(2);
    expect(bench.warnings[1]).toContain("can be written again");
    expect(await readBack(store, 2)).toEqual(payloadOf(2));
    await store.close();
  },
);

test("a disk that is full and has room in turn is told of once when it begins, once at the end", async ({
  bench,
}) => {
  let full = false;
  let now = 0;
  const files: DiskFiles = {
    ...systemFiles,
    create: (path, parts) =>
      full ? Promise.reject(failure("ENOSPC")) : systemFiles.create(path, parts),
  };
  const { store } = await bench.open({ files, clock: { nowMs: () => now } });
  for (let round = 0; round < 20; round++) {
    now += 10_000;
    full = round % 2 === 0;
    // Writes are skipped after a failure: the one that is tried decides.
    for (let i = 0; i < 8; i++) await store.write(block(i), payloadOf(i));
  }
  expect(bench.warnings).toEqual([expect.stringContaining("ENOSPC")]);
  full = false;
  now += 30_000;
  while (!(await store.write(block(9), payloadOf(9)))) now += 1;
  expect(bench.warnings).toEqual([
    expect.stringContaining("ENOSPC"),
    expect.stringContaining("can be written again"),
  ]);
  await store.close();
});

/** The machine's files, of which none can be opened or read while `code` says why. */
function failingReads() {
  const failing: { at: "open" | "read"; code: string | null } = { at: "read", code: null };
  const files: DiskFiles = {
    ...systemFiles,
    open: async (path) => {
      const { at, code } = failing;
      if (code !== null && at === "open") throw failure(code);
      const file = await systemFiles.open(path);
      return code === null ? file : { ...file, read: () => Promise.reject(failure(code)) };
    },
  };
  return { failing, files };
}

test.for([
  ["EMFILE", "open"],
  ["EACCES", "open"],
  ["ENOMEM", "read"],
  ["EIO", "read"],
] as const)(
  "a read that ends with %s at %s leaves the file, and a line",
  async ([code, at], { bench }) => {
    const { failing, files } = failingReads();
    const { store } = await bench.open({ files });
    await fill(store, 1);
    Object.assign(failing, { code, at });
    expect(await store.read(block(0), new Uint8Array(BYTES))).toBe("unreadable");
    expect(bench.warnings).toEqual([expect.stringMatching(new RegExp(`${code}.*the file stays`))]);
    expect(store.stats()).toMatchObject({ damaged: 0, reads: { failures: 1 } });
    failing.code = null;
    expect(await readBack(store, 0)).toEqual(payloadOf(0));
    await store.close();
  },
);

test("files that cannot be read at the start stay, and so does what continues them", async ({
  bench,
}) => {
  const first = await bench.open();
  await fill(first.store, 3);
  await first.store.close();
  const hidden = pathIn(bench.folder, 0);
  const files: DiskFiles = {
    ...systemFiles,
    open: (path) => (path === hidden ? Promise.reject(failure("EMFILE")) : systemFiles.open(path)),
  };
  const second = await bench.open({ files });
  expect(second.survivors).toEqual([]);
  expect(bench.warnings).toEqual([expect.stringMatching(/^Ignored 1 files .*EMFILE/)]);
  await second.store.close();
  const third = await bench.open();
  expect(third.survivors).toHaveLength(3);
  await third.store.close();
});

test("a read that was cancelled says nothing of its file", async ({ bench }) => {
  const { store } = await bench.open();
  await fill(store, 1);
  store.cancel();
  expect(await store.read(block(0), new Uint8Array(BYTES))).toBe("unreadable");
  await store.close();
  expect(existsSync(pathIn(bench.folder, 0))).toBe(true);
});

test("a cache whose folder is emptied while it is used goes on", async ({ bench }) => {
  const { store } = await bench.open();
  await fill(store, 3);
  rmSync(bench.folder, { recursive: true });
  expect(await readBack(store, 0)).toBeNull();
  await fill(store, 3);
  expect(await readBack(store, 2)).toEqual(payloadOf(2));
  await store.close();
});

test("no more files are open at a time than there are lanes", async ({ bench }) => {
  let [open, most] = [0, 0];
  const counted = async <T>(work: () => Promise<T>) => {
    most = Math.max(most, ++open);
    try {
      return await work();
    } finally {
      open--;
    }
  };
  const files: DiskFiles = {
    ...systemFiles,
    create: (path, parts) => counted(() => systemFiles.create(path, parts)),
  };
  const { store } = await bench.open({ files });
  await fill(store, 50);
  expect(most).toBe(2);
  await store.close();
});

test("cancelling drops what has not begun, but not removals", async ({ bench }) => {
  const { store } = await bench.open();
  await fill(store, 1);
  const writes = Array.from({ length: 40 }, (_, i) => store.write(block(i + 1), payloadOf(i + 1)));
  const removal = store.remove(keyOf(0));
  store.cancel();
  const written = (await Promise.all(writes)).filter((ok) => ok).length;
  expect(written).toBeLessThan(5);
  expect(await removal).toBe(true);
  await store.close();
  expect(readdirSync(join(bench.folder, "00"))).toHaveLength(written);
});

test("the time of overlapping reads is counted once", async ({ bench }) => {
  const measured: number[] = [];
  let now = 0;
  const files: DiskFiles = {
    ...systemFiles,
    open: async (path) => {
      const file = await systemFiles.open(path);
      now += 1;
      return file;
    },
  };
  const { store } = await bench.open({
    files,
    clock: { nowMs: () => now },
    onRead: (bytes, ms) => measured.push(bytes, ms),
  });
  await fill(store, 4);
  now = 100;
  await Promise.all([0, 1, 2, 3].map((index) => readBack(store, index)));
  const { reads } = store.stats();
  expect(reads).toEqual({ count: 4, bytes: 4 * BYTES, ms: 4, failures: 0 });
  expect(measured.filter((_, index) => index % 2 === 1).reduce((a, b) => a + b)).toBe(4);
  await store.close();
});
