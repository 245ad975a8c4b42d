/** A folder whose process is killed, whose disk is full, whose files are damaged, that two want. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { openStore, type VectorStore } from "#rag/stores";
import { sized } from "../../support/full.ts";
import { MemoryStore } from "../../support/memory-store.ts";
import { byText, byVector, chunkOf, DIMENSIONS } from "./corpus-cases.ts";
import { steps, write } from "./written-steps.mjs";

const STEPS_FILE = resolve("test/rag/stores/written-steps.mjs");
const CHILD_FILE = resolve("test/rag/stores/writing-child.mjs");
const SPEC = { name: "written", dimensions: 16, embedder: "embedder-1" };
const SMALL = { name: "small", dimensions: DIMENSIONS, embedder: "embedder-1" };

let folder: string;
const children: ChildProcess[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "perigee-store-"));
});
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

/** A process that writes from a step on, and the lines that it says. */
function writer(from: number, limit = ""): { child: ChildProcess; lines: AsyncIterator<string> } {
  const words = [CHILD_FILE, folder, STEPS_FILE, String(from)];
  const script = `${limit} exec "$0" "$@"`;
  const child = spawn("bash", ["-c", script, process.execPath, ...words], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.push(child);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return { child, lines };
}

async function said(lines: AsyncIterator<string>): Promise<string> {
  const { value, done } = await lines.next();
  return done === true ? "ended" : String(value);
}

/** What a store has: documents, chunks and what is found. */
async function contents(store: VectorStore): Promise<unknown> {
  const documents = await store.documents(SPEC.name);
  const chunks = await Promise.all(documents.map(({ id }) => store.chunksOf(SPEC.name, id)));
  const words = await store.search(SPEC.name, byText("words", { limit: 1000 }));
  return { documents, chunks, found: words.map(({ chunk }) => chunk.id).sort() };
}

/** What it should have after so many steps. */
async function expectedAfter(count: number): Promise<unknown> {
  const model = new MemoryStore();
  await model.create(SPEC);
  for (let step = 0; step < count; step++) await write(model, step);
  return contents(model);
}

describe("a folder", () => {
  it.each(sized([3, 8], [1, 2, 3, 5, 8, 13]))(
    "[RG14] whose process is killed has the state before or after the call that ran (seed %i)",
    async (seed) => {
      let done = 0;
      for (let round = 0; round < sized(2, 12); round++) {
        const { child, lines } = writer(done);
        expect(await said(lines)).toBe("open");
        const last = done + ((seed * 7 + round * 5) % 23);
        while (done <= last) done = Number(await said(lines)) + 1;
        // Not at the end of a step, but somewhere in the next ones.
        await sleep((seed * 3 + round) % 9);
        child.kill("SIGKILL");
        for (let line = await said(lines); line !== "ended"; line = await said(lines)) {
          done = Number(line) + 1;
        }
        const store = await openStore(folder, { exactElements: 64 });
        const found = await contents(store);
        await store.close();
        const before = await expectedAfter(done);
        const isBefore = JSON.stringify(found) === JSON.stringify(before);
        if (!isBefore) expect(found).toEqual(await expectedAfter(++done));
        expect(done).toBeLessThan(steps);
      }
    },
  );

  it("[RG16] that is full refuses to write, finds what it has, and goes on when there is room", async () => {
    // Of a file, in blocks of 1,024 bytes.
    const { child, lines } = writer(0, "ulimit -f 300;");
    expect(await said(lines)).toBe("open");
    let done = 0;
    let line = await said(lines);
    for (; /^\d+$/.test(line); line = await said(lines)) done = Number(line) + 1;
    const exited = once(child, "exit");
    expect(line).toMatch(/^failed .*STORE_UNAVAILABLE.*make room and try again/);
    expect(done).toBeGreaterThan(2);
    expect(await said(lines)).toMatch(/^found (\d+) of \1$/);
    await exited;
    const store = await openStore(folder, { exactElements: 64 });
    expect(await contents(store)).toEqual(await expectedAfter(done));
    await write(store, done);
    expect(await contents(store)).toEqual(await expectedAfter(done + 1));
    await store.close();
  });

  it("[RG15] in use by another process is refused, naming it, until that process ends", async () => {
    const { child, lines } = writer(0);
    expect(await said(lines)).toBe("open");
    await expect(openStore(folder)).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(new RegExp(`process ${child.pid}; close the store there`)),
    });
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
    await (await openStore(folder)).close();
  });

  it("[RG15] in use by this process is refused, until it was closed", async () => {
    const store = await openStore(folder);
    await expect(openStore(folder)).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(/this process/),
    });
    await store.close();
    await (await openStore(folder)).close();
  });

  it("[RG15] with another machine's lock is taken over once that gave no sign for 30 s", async () => {
    const lock = join(folder, "lock");
    const text = JSON.stringify({ token: "t", pid: 1, started: "1", place: "elsewhere" });
    writeFileSync(lock, text);
    await expect(openStore(folder)).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(/process 1 of elsewhere/),
      retryAfterSeconds: 30,
    });
    const longAgo = Date.now() / 1000 - 31;
    utimesSync(lock, longAgo, longAgo);
    const store = await openStore(folder);
    expect(readFileSync(lock, "utf8")).not.toBe(text);
    await store.close();
    expect(readdirSync(folder)).not.toContain("lock");
  });

  it("[RG16] that cannot be made is told", async () => {
    const file = join(folder, "file");
    writeFileSync(file, "");
    await expect(openStore(join(file, "store"))).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(/ENOTDIR/),
    });
  });

  /** A corpus on disk, closed; returns the paths of its files by their endings. */
  async function written(exactElements = 64): Promise<(ending: string) => string> {
    const store = await openStore(folder, { exactElements });
    await store.create(SPEC);
    for (let step = 0; step < 10; step++) await write(store, step);
    await store.close();
    const corpus = join(folder, "corpora", readdirSync(join(folder, "corpora"))[0] ?? "");
    return (ending) =>
      join(corpus, readdirSync(corpus).find((name) => name.endsWith(ending)) ?? "");
  }

  it.each([
    ["chunks.sqlite", 0],
    ["vectors.f32", 1],
  ])("[RG16] with a damaged %s tells so", async (name, kind) => {
    const path = (await written())(name);
    if (kind === 0) writeFileSync(path, Buffer.alloc(statSync(path).size, 7));
    else truncateSync(path, 640);
    const store = await openStore(folder);
    await expect(store.documents(SPEC.name)).rejects.toMatchObject({
      code: "CORPUS_INVALID",
      message: expect.stringMatching(/ingest again/),
    });
    await store.drop(SPEC.name);
    expect(await store.corpora()).toEqual([]);
    await store.close();
  });

  it.each([".usearch", ".rows"])(
    "[RG16] with a damaged index (%s) builds it again",
    async (ending) => {
      const path = await written();
      truncateSync(path(ending), 40);
      const store = await openStore(folder, { exactElements: 64 });
      expect(await contents(store)).toEqual(await expectedAfter(10));
      await store.close();
      expect(statSync(path(ending)).size).toBeGreaterThan(40);
    },
  );

  it("[RG14] whose thread ends fails the calls that ran, and starts another for the next", async () => {
    const post = vi.spyOn(Worker.prototype, "postMessage");
    const store = await openStore(folder);
    await store.create(SMALL);
    await store.upsert(SMALL.name, [chunkOf({ document: "a" })]);
    const thread = post.mock.contexts.at(-1) as Worker;
    post.mockRestore();
    const running = store.search(SMALL.name, byVector([1, 0, 0, 0]));
    const failed = expect(running).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await thread.terminate();
    await failed;
    const both = [1, 2].map(() => store.search(SMALL.name, byVector([1, 0, 0, 0])));
    expect((await Promise.all(both)).map((hits) => hits.length)).toEqual([1, 1]);
    await store.close();
  });

  it("[RG11] is given what is no data: that is refused", async () => {
    const store = await openStore(folder);
    await store.create(SMALL);
    const chunk = { ...chunkOf({ document: "a" }), extra: () => {} };
    await expect(store.upsert(SMALL.name, [chunk])).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
    expect(await store.corpus(SMALL.name)).toMatchObject({ chunks: 0 });
    await store.close();
  });
});
