import { type ChildProcess, execFileSync, fork } from "node:child_process";
import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, vi } from "vitest";
import type { IngestReport } from "#rag/ingest";
import { sized } from "../../support/full.ts";
import { folder, prose, write } from "./ingest-cases.ts";
import { documentsIn, readLog } from "./log-store.mjs";

// Some thirty processes, one after the other.
vi.setConfig({ testTimeout: sized(5, 60) * 60_000 });

const script = fileURLToPath(new URL("killed-process.mjs", import.meta.url));

interface Run {
  readonly child: ChildProcess;
  readonly ended: Promise<{ readonly signal: string | null; readonly report: IngestReport | null }>;
}

/** A process that ingests; with `writes` it kills itself before that write. */
function start(base: string, log: string, writes: number, tellsFirst: boolean): Run {
  const child = fork(script, [base, log, String(writes), String(tellsFirst)], { execArgv: [] });
  let report: IngestReport | null = null;
  child.on("message", (message) => {
    report = message as IngestReport;
  });
  const ended = new Promise<Awaited<Run["ended"]>>((resolve) => {
    child.once("exit", (_, signal) => resolve({ signal, report }));
  });
  return { child, ended };
}

function corpusOf(seed: number): Record<string, string> {
  return {
    "a.md": `# A\n\n${prose(seed, 6)}\n## B\n\n${prose(seed + 1, 3)}`,
    "b.txt": prose(seed + 2, 2),
    "c.txt": "one line",
    "in/d.md": prose(seed + 3, 9),
    "in/e.jsonl": [1, 2, 3]
      .map((n) => JSON.stringify({ id: n, text: prose(seed + n, 1) }))
      .join("\n"),
  };
}

/**
 * The chunks in a log, in order. Of a document that is whole, some may still have the version of a
 * replacement that is under way (src/rag/ingest/store-stage.ts): their number is not compared.
 */
function chunksIn(log: string): unknown[] {
  const chunks = [...readLog(log).values()] as {
    readonly id: string;
    readonly documentHash: string;
  }[];
  return chunks
    .map((chunk) => ({ ...chunk, documentHash: chunk.documentHash.slice(0, 56) }))
    .sort((one, other) => (one.id < other.id ? -1 : 1));
}

describe("a killed ingestion", () => {
  it.each([true, false])(
    "[RG52] leaves a corpus that the next call completes, whichever write it was before (%s)",
    async (tellsFirst) => {
      const first = folder(corpusOf(1));
      const second = folder({ ...corpusOf(1), ...corpusOf(50), "c.txt": "another line" });
      rmSync(join(second, "b.txt"));
      const clean = join(folder(), "clean");
      expect((await start(second, clean, 0, tellsFirst).ended).report?.failed).toBe(0);
      const before = join(folder(), "before");
      expect((await start(first, before, 0, tellsFirst).ended).report?.failed).toBe(0);
      // A fresh corpus, and one of which all documents are replaced or removed.
      for (const [origin, stride] of [
        [null, sized(37, 1)],
        [before, sized(61, 1)],
      ] as const) {
        for (let writes = 1, isDone = false; !isDone; writes += stride) {
          const log = join(folder(), "log");
          if (origin !== null) cpSync(origin, log);
          isDone = (await start(second, log, writes, tellsFirst).ended).signal === null;
          const { report } = await start(second, log, 0, tellsFirst).ended;
          expect(report, `killed before write ${writes}`).not.toBeNull();
          expect(chunksIn(log), `killed before write ${writes}`).toEqual(chunksIn(clean));
        }
      }
    },
  );

  it("[RG52] embeds again only what was not stored of new documents", async () => {
    const base = folder({ "a.md": prose(1, 40) });
    const log = join(folder(), "log");
    await start(base, log, 61, false).ended;
    expect(readLog(log).size).toBe(60);
    const { report } = await start(base, log, 0, false).ended;
    expect(report?.chunksEmbedded).toBe((report?.chunksCut ?? 0) - 60);
    expect((await start(base, log, 0, false).ended).report).toMatchObject({ unchanged: 1 });
  });

  it("[RG52] is completed after kills at any moment, and leaves no process", async () => {
    const files = Object.fromEntries(
      Array.from({ length: 30 }, (_, at) => [`${at}.md`, prose(at, 12)]),
    );
    const base = folder(files);
    const log = join(folder(), "log");
    const delays = Array.from({ length: sized(6, 60) }, (_, at) => 150 + ((at * 197) % 900));
    for (const delay of delays) {
      const { child, ended } = start(base, log, 0, delay % 2 === 0);
      const timeout = setTimeout(() => child.kill("SIGKILL"), delay);
      await ended;
      clearTimeout(timeout);
      if (delay % 3 === 0) write(base, { "7.md": prose(delay, 12) });
      await expect.poll(() => childrenOf(child.pid ?? 0)).toEqual([]);
    }
    expect((await start(base, log, 0, false).ended).report?.failed).toBe(0);
    const clean = join(folder(), "clean");
    await start(base, clean, 0, false).ended;
    expect(chunksIn(log)).toEqual(chunksIn(clean));
    expect(documentsIn(readLog(log), true)).toHaveLength(30);
  });
});

/** Reading processes of a process, which they have as their last argument. */
function childrenOf(pid: number): string[] {
  const list = execFileSync("ps", ["-eo", "args="], { encoding: "utf8" });
  return list.split("\n").filter((line) => {
    return line.includes("reading-process.js") && line.trim().endsWith(` ${pid}`);
  });
}
