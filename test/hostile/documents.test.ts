import { fork } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { IngestReport } from "#rag/ingest";
import { full, sized } from "../support/full.ts";
import { type Fate, makeOddDocuments } from "./odd-documents.ts";

const MIB = 2 ** 20;
const sizes = {
  lineBytes: sized(2, 100) * MIB,
  depth: sized(10_000, 100_000),
  bombBytes: sized(16, 1024) * MIB,
  others: sized(60, 10_000),
};
const settings = {
  fileBytesMax: 128 * MIB,
  fileSeconds: sized(5, 30),
  readerMemoryBytes: sized(512, 1024) * MIB,
};

interface Outcome {
  readonly report: IngestReport;
  /** Names of the corpus's documents. */
  readonly ids: readonly string[];
  readonly pauseMs: number;
  readonly loopDelayMs: number;
  readonly residentBytes: number;
}

/** Ingests in a process of its own, whose pauses and memory are measured. */
function ingested(base: string): Promise<Outcome> {
  const script = fileURLToPath(new URL("documents-process.mjs", import.meta.url));
  const child = fork(script, [base, JSON.stringify(settings)], {
    execArgv: [],
    serialization: "advanced",
  });
  return new Promise((resolve, reject) => {
    child.once("message", (outcome) => resolve(outcome as Outcome));
    child.once("exit", (code, signal) => reject(new Error(`it ended with ${signal ?? code}`)));
  });
}

test(`[RG54] strangers' files harm no ingestion: each is stored, or named with a reason`, {
  timeout: sized(5, 60) * 60_000,
}, async () => {
  const base = mkdtempSync(join(tmpdir(), "perigee-odd-"));
  try {
    const fates = makeOddDocuments(base, sizes);
    const { report, ids, pauseMs, loopDelayMs, residentBytes } = await ingested(base);
    if (full)
      console.info({
        ...report,
        failures: report.failures.length,
        skips: report.skips.length,
        pauseMs,
        loopDelayMs,
        residentBytes,
      });
    expect(wrongFates(fates, report, ids)).toEqual([]);
    for (const { reason } of [...report.failures, ...report.skips]) expect(reason).not.toBe("");
    expect(pauseMs).toBeLessThan(250);
    expect(residentBytes).toBeLessThan(sized(512, 3072) * MIB);
  } finally {
    const closed = join(base, "special/closed");
    if (existsSync(closed)) chmodSync(closed, 0o700);
    rmSync(base, { recursive: true, force: true });
  }
});

/** Files that became something else than they should. */
function wrongFates(
  fates: ReadonlyMap<string, Fate>,
  report: IngestReport,
  ids: readonly string[],
): string[] {
  // Of a file of rows each one is a document, and may be a problem.
  const fileOf = (id: string) => (fates.has(id) ? id : id.slice(0, id.lastIndexOf("#")));
  const stored = new Set(ids.map(fileOf));
  const named = new Set([...report.failures, ...report.skips].map(({ id }) => fileOf(id)));
  const wrong: string[] = [];
  for (const [name, fate] of fates) {
    const isRight = {
      stored: stored.has(name) && !named.has(name),
      named: named.has(name) && !stored.has(name),
      empty: !named.has(name) && !stored.has(name),
      either: true,
    }[fate];
    const reason = report.failures.find(({ id }) => fileOf(id) === name)?.reason ?? "";
    if (!isRight) wrong.push(`${JSON.stringify(name)} is not ${fate}: ${reason}`);
  }
  const known = new Set(fates.keys());
  for (const name of [...stored, ...named]) if (!known.has(name)) wrong.push(`${name} is unknown`);
  return wrong;
}
