import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { EngineError } from "#base";
import { Book } from "../../../src/rag/http/book.ts";
import { RagServing } from "../../../src/rag/http/config.ts";
import type { Corpora } from "../../../src/rag/http/corpora.ts";
import type { FileRecord, StoreRecord } from "../../../src/rag/http/records.ts";
import { UploadedFiles } from "../../../src/rag/http/uploaded-files.ts";
import type { StoreFields } from "../../../src/rag/http/vector-stores.ts";
import { VectorStores } from "../../../src/rag/http/vector-stores.ts";
import { ScriptedIngest } from "../../support/scripted-ingest.ts";

const DAY = 86_400;
const fields: StoreFields = {
  ...{ name: "s", description: null, metadata: {}, expiresAfterDays: null },
};

/** Vector stores over a folder, with ingestion that a test decides about. */
class Bench {
  readonly ingest = new ScriptedIngest();
  readonly dropped: string[] = [];
  readonly warnings: string[] = [];
  dropError: unknown = null;
  now = 1_000_000;
  book!: Book;
  files!: UploadedFiles;
  stores!: VectorStores;

  async open(limits: Partial<RagServing> = {}): Promise<this> {
    this.book = await Book.open(join(folder, "records.jsonl"));
    const settings = RagServing.parse(limits);
    this.files = await UploadedFiles.open(this.book, folder, settings);
    const corpora = {
      make: async () => {},
      drop: async (name: string) => {
        if (this.dropError !== null) throw this.dropError;
        this.dropped.push(name);
      },
    } as unknown as Corpora; // its class has private parts
    this.stores = new VectorStores({
      ...{ ...settings, book: this.book, files: this.files, ingest: this.ingest, corpora },
      nowSeconds: () => this.now,
      warn: (message) => this.warnings.push(message),
    });
    this.stores.resume();
    benches.add(this);
    return this;
  }

  async close(): Promise<void> {
    if (!benches.delete(this)) return;
    await this.stores.close();
    await this.book.close();
  }

  async upload(name: string, expiresAfterSeconds: number | null = null): Promise<FileRecord> {
    const path = join(this.files.incoming, name);
    writeFileSync(path, name);
    const hash = "0".repeat(64);
    const upload = { path, filename: name, purpose: "assistants", bytes: name.length, hash };
    return await this.files.add({ ...upload, expiresAfterSeconds }, this.now);
  }

  async attach(store: StoreRecord, ...files: readonly FileRecord[]) {
    return await this.stores.files.attach(store, files.map(plain));
  }

  statuses(store: StoreRecord): Record<string, string> {
    const members = this.stores.files.of(store);
    return Object.fromEntries(members.map(({ filename, status }) => [filename, status]));
  }
}

const plain = ({ id }: FileRecord) => ({ fileId: id, attributes: {}, chunking: null });
const benches = new Set<Bench>();
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "perigee-stores-"));
});
afterEach(async () => {
  for (const bench of benches) await bench.close();
  rmSync(folder, { recursive: true, force: true });
});
const opened = (limits?: Partial<RagServing>) => new Bench().open(limits);
/** Names of files in the jobs that are under way. */
const working = ({ ingest }: Bench) => ingest.open.map(({ names }) => names.join(" "));

test("[RG101] what was told is there after a restart; files on their way go on", async () => {
  const first = await opened();
  const store = await first.stores.create({ ...fields, metadata: { team: "a" } }, []);
  const [a, b] = [await first.upload("a"), await first.upload("b")];
  await first.attach(store, a);
  await expect.poll(() => working(first)).toEqual(["a"]);
  first.ingest.open[0]?.end();
  await first.attach(store, b);
  await expect.poll(() => first.statuses(store)).toEqual({ a: "completed", b: "in_progress" });
  await first.close();

  const second = await opened();
  const again = second.stores.get(store.id);
  expect(again).toMatchObject({ name: "s", metadata: { team: "a" }, createdAt: 1_000_000 });
  expect(second.files.get(a.id)).toEqual(a);
  expect(second.statuses(again)).toEqual({ a: "completed", b: "in_progress" });
  await expect.poll(() => working(second)).toEqual(["b"]);
  second.ingest.open[0]?.end();
  await expect.poll(() => second.statuses(again)).toEqual({ a: "completed", b: "completed" });
  const c = await second.upload("c");
  expect(c.serial).toBeGreaterThan(b.serial);
});

test("[RG101] bytes without a record are removed at the start", async () => {
  const first = await opened();
  const a = await first.upload("a");
  await first.close();
  writeFileSync(join(folder, "incoming", "half"), "x");
  writeFileSync(join(folder, "files", `file-${"0".repeat(24)}`), "x");
  const second = await opened();
  expect(readdirSync(join(folder, "files"))).toEqual([a.id]);
  expect(readdirSync(join(folder, "incoming"))).toEqual([]);
  await second.close();
});

test("[RG107] a failed file has a reason and leaves no chunks", async () => {
  const bench = await opened();
  const [a, b] = [await bench.upload("a"), await bench.upload("b")];
  const store = await bench.stores.create(fields, [a, b].map(plain));
  await expect.poll(() => working(bench)).toEqual(["a b"]);
  bench.ingest.open[0]?.end([
    { state: "failed", code: "invalid_file", message: "Cannot read a" },
    { state: "stored", usageBytes: 5 },
  ]);
  await expect.poll(() => bench.statuses(store)).toEqual({ a: "failed", b: "completed" });
  await expect.poll(() => bench.ingest.removed).toEqual([`${store.id} ${a.id}`]);
  expect(bench.stores.files.get(store, a.id).error?.message).toBe("Cannot read a");
  expect(bench.stores.files.counts(store)).toMatchObject({ usageBytes: 5, files: { total: 2 } });
});

test("[RG107] a cancelled batch leaves what is in, and lets nothing more in", async () => {
  const bench = await opened();
  const store = await bench.stores.create(fields, []);
  const files = await Promise.all(Array.from({ length: 20 }, (_, n) => bench.upload(`f${n}`)));
  const other = await bench.upload("other");
  const batch = await bench.stores.files.attachBatch(store, files.map(plain));
  await bench.attach(store, other);
  await expect.poll(() => bench.ingest.open.length).toBe(1);
  expect(bench.ingest.open[0]?.names).toHaveLength(16);
  bench.ingest.open[0]?.end();
  await expect.poll(() => bench.ingest.open[0]?.names).toContain("other");
  const cancelled = await bench.stores.files.cancel(batch);
  expect(cancelled.cancelled).toBe(true);
  const counts = bench.stores.files.counts(store).files;
  expect(counts).toMatchObject({ completed: 16, cancelled: 4, in_progress: 1, total: 21 });
  // A file that is not of the batch goes on.
  await expect.poll(() => working(bench)).toEqual(["other"]);
});

test("[RG107] other attributes store a file's chunks anew, also while it is on its way", async () => {
  const bench = await opened();
  const a = await bench.upload("a");
  const store = await bench.stores.create(fields, [plain(a)]);
  await expect.poll(() => working(bench)).toEqual(["a"]);
  const member = bench.stores.files.get(store, a.id);
  await bench.stores.files.updateMember(member, { year: 1931 });
  await expect
    .poll(() => bench.ingest.open.map(({ job }) => job.attributes))
    .toEqual([{ year: 1931 }]);
  bench.ingest.open[0]?.end();
  await expect.poll(() => bench.statuses(store)).toEqual({ a: "completed" });
});

test("[RG108] what was deleted is gone at once, its chunks when the store can be reached", async () => {
  const bench = await opened();
  const [a, b] = [await bench.upload("a"), await bench.upload("b")];
  const store = await bench.stores.create(fields, [a, b].map(plain));
  await expect.poll(() => bench.ingest.open.length).toBe(1);
  bench.ingest.open[0]?.end();
  await expect.poll(() => bench.statuses(store)).toEqual({ a: "completed", b: "completed" });
  bench.ingest.removeError = new EngineError("STORE_UNAVAILABLE", "Cannot reach it");
  await bench.stores.files.detach(bench.stores.files.get(store, a.id));
  expect(bench.statuses(store)).toEqual({ b: "completed" });
  expect(() => bench.stores.files.get(store, a.id)).toThrow("Cannot find file");
  expect(bench.warnings).toHaveLength(1);
  await bench.stores.removeFile(b);
  expect(bench.statuses(store)).toEqual({});
  expect(() => bench.files.get(b.id)).toThrow("Cannot find file");
  bench.ingest.removeError = null;
  await bench.stores.expire();
  expect(bench.ingest.removed).toEqual([`${store.id} ${a.id}`, `${store.id} ${b.id}`]);
  expect(bench.book.memberCount).toBe(0);
});

test("[RG108] a deleted vector store is gone; a restart removes what was left of it", async () => {
  const first = await opened();
  const a = await first.upload("a");
  const store = await first.stores.create(fields, [plain(a)]);
  first.dropError = new EngineError("STORE_UNAVAILABLE", "Cannot reach it");
  await first.stores.remove(store);
  expect(first.stores.list()).toEqual([]);
  expect(() => first.stores.get(store.id)).toThrow("Cannot find vector store");
  await first.close();
  const second = await opened();
  await expect.poll(() => second.dropped).toEqual([store.id]);
  await expect.poll(() => second.book.storeCount).toBe(0);
  expect(second.book.memberCount).toBe(0);
  expect(second.files.get(a.id)).toEqual(a);
});

test("[RG108] a store expires days after its last use, and its files with it", async () => {
  const bench = await opened();
  const a = await bench.upload("a");
  const store = await bench.stores.create({ ...fields, expiresAfterDays: 2 }, [plain(a)]);
  bench.now += DAY;
  bench.stores.use(store);
  bench.now += DAY + 1;
  await bench.stores.expire();
  expect(bench.stores.get(store.id).expired).toBe(false);
  expect(bench.stores.expiresAt(bench.stores.get(store.id))).toBe(1_000_000 + 3 * DAY);
  bench.now += DAY;
  expect(() => bench.stores.use(bench.stores.get(store.id))).toThrow("expired");
  await bench.stores.expire();
  expect(bench.stores.get(store.id).expired).toBe(true);
  expect(bench.dropped).toEqual([store.id]);
  expect(bench.statuses(store)).toEqual({});
});

test("[RG108] a file expires and leaves all stores", async () => {
  const bench = await opened();
  const a = await bench.upload("a", 3600);
  const store = await bench.stores.create(fields, [plain(a)]);
  bench.now += 3599;
  await bench.stores.expire();
  expect(bench.files.get(a.id)).toEqual(a);
  bench.now += 1;
  await bench.stores.expire();
  expect(() => bench.files.get(a.id)).toThrow("Cannot find file");
  expect(bench.statuses(store)).toEqual({});
  expect(readdirSync(join(folder, "files"))).toEqual([]);
});

test("[RG109] stores take turns, a bounded number at a time", async () => {
  const bench = await opened({ ingestJobs: 2 });
  const files = await Promise.all(Array.from({ length: 20 }, (_, n) => bench.upload(`f${n}`)));
  const stores = [];
  for (let n = 0; n < 3; n++) stores.push(await bench.stores.create(fields, files.map(plain)));
  await expect.poll(() => bench.ingest.open.length).toBe(2);
  bench.ingest.open[0]?.end();
  const corpora = () => bench.ingest.open.map(({ job }) => job.corpus);
  await expect.poll(corpora).toEqual([stores[1]?.id, stores[2]?.id]);
  bench.ingest.open[0]?.end();
  await expect.poll(corpora).toEqual([stores[2]?.id, stores[0]?.id]);
});

test("[RG109] files of other attributes are put in apart", async () => {
  const bench = await opened();
  const [a, b] = [await bench.upload("a"), await bench.upload("b")];
  const store = await bench.stores.create(fields, []);
  await bench.stores.files.attach(store, [plain(a), { ...plain(b), attributes: { n: 1 } }]);
  await expect.poll(() => working(bench)).toEqual(["a"]);
  bench.ingest.open[0]?.end();
  await expect.poll(() => working(bench)).toEqual(["b"]);
});

test("[RG109] a store that cannot be reached for a while fails no file", async () => {
  const bench = await opened();
  const a = await bench.upload("a");
  const store = await bench.stores.create(fields, [plain(a)]);
  await expect.poll(() => working(bench)).toEqual(["a"]);
  bench.ingest.open[0]?.fail(new EngineError("STORE_UNAVAILABLE", "Cannot reach it"));
  await expect.poll(() => bench.warnings.length).toBe(1);
  await expect.poll(() => working(bench), { timeout: 5000 }).toEqual(["a"]);
  bench.ingest.open[0]?.fail(new EngineError("INVALID_ARGUMENT", "Cannot embed"));
  await expect.poll(() => bench.statuses(store)).toEqual({ a: "failed" });
  expect(bench.stores.files.get(store, a.id).error).toEqual({
    ...{ code: "server_error", message: "Cannot embed" },
  });
});

test("[RG105] numbers of stores and files are bounded, and a refusal changes nothing", async () => {
  const bench = await opened({ storesMax: 1, filesMax: 2, totalBytesMax: 100, fileBytesMax: 60 });
  const a = await bench.upload("a");
  const store = await bench.stores.create(fields, []);
  await expect(bench.stores.create(fields, [])).rejects.toThrow("--rag-stores-max");
  await expect(bench.attach(store, { ...a, id: "file-none" })).rejects.toThrow("Cannot find file");
  expect(bench.statuses(store)).toEqual({});
  const room = bench.files.reserve(60);
  expect(() => bench.files.reserve(1)).toThrow("--rag-files-max");
  room.release();
  expect(() => bench.files.reserve(100)).toThrow("--rag-total-bytes-max");
  bench.files.reserve(99).release();
});

test("[RG107] a file that is put in again while it is taken out stays in", async () => {
  const bench = await opened();
  const a = await bench.upload("a");
  const store = await bench.stores.create(fields, [plain(a)]);
  await expect.poll(() => working(bench)).toEqual(["a"]);
  const leaving = bench.stores.files.detach(bench.stores.files.get(store, a.id));
  await Promise.all([leaving, bench.attach(store, a)]);
  await expect.poll(() => working(bench)).toEqual(["a"]);
  bench.ingest.open[0]?.end();
  await expect.poll(() => bench.statuses(store)).toEqual({ a: "completed" });
});
