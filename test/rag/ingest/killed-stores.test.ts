import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { IngestEvent, IngestReport } from "#rag/ingest";
import { openStore } from "#rag/stores";
import { sized } from "../../support/full.ts";
import { MilvusLite, noMilvus } from "../stores/milvus-lite.ts";
import { folder, prose, write } from "./ingest-cases.ts";

vi.setConfig({ testTimeout: sized(5, 30) * 60_000 });

const script = fileURLToPath(new URL("killed-store-process.mjs", import.meta.url));

interface Run {
  readonly child: ChildProcess;
  /** Of its report; null: it was killed. */
  readonly ended: Promise<IngestReport | null>;
}

/** A process that ingests; it is killed at its `killedAt`-th event, if it has as many. */
function start(base: string, where: string, killedAt: number | null): Run {
  const child = fork(script, [base, where], { execArgv: [] });
  let events = 0;
  let report: IngestReport | null = null;
  child.on("message", (message) => {
    const event = message as IngestEvent;
    if (event.type === "report") report = event;
    events++;
    if (events === killedAt) child.kill("SIGKILL");
  });
  const ended = new Promise<IngestReport | null>((resolve) => {
    child.once("exit", (code) => resolve(code === 0 ? report : null));
  });
  return { child, ended };
}

/** All chunks of the corpus, without the versions of their documents. */
async function chunksIn(where: string): Promise<unknown[]> {
  await using store = await openStore(where);
  const documents = await store.documents("c");
  const lists = await Promise.all(documents.map(({ id }) => store.chunksOf("c", id)));
  return lists
    .flat()
    .map(({ documentHash, ...chunk }) => chunk)
    .sort((one, other) => (one.id < other.id ? -1 : 1));
}

/** Kills ingestions into `where` one after the other, with changes between them. */
async function survivesKills(where: string, clean: string): Promise<void> {
  const files = Object.fromEntries(
    Array.from({ length: 8 }, (_, at) => [`${at}.md`, prose(at, 8)] as const),
  );
  const base = folder(files);
  let kills = 0;
  for (let killedAt = 1; kills < sized(4, 40); killedAt += 3) {
    const report = await start(base, where, killedAt).ended;
    if (report !== null) break;
    kills++;
    if (kills % 3 === 0) write(base, { "3.md": prose(kills, 8) });
  }
  expect(kills).toBeGreaterThan(3);
  const report = await start(base, where, null).ended;
  expect(report).toMatchObject({ failed: 0 });
  expect(await start(base, where, null).ended).toMatchObject({ unchanged: 8, chunksEmbedded: 0 });
  expect((await start(base, clean, null).ended)?.failed).toBe(0);
  const expected = await chunksIn(clean);
  expect(expected.length).toBeGreaterThan(40);
  expect(await chunksIn(where)).toEqual(expected);
}

describe("a killed ingestion into a real store", () => {
  it("[RG52] is completed in a folder: the same chunks as undisturbed", async () => {
    const base = folder();
    await survivesKills(join(base, "killed"), join(base, "clean"));
  });

  it.skipIf(noMilvus !== null)(
    `[RG52] is completed in Milvus: the same chunks as undisturbed (${noMilvus ?? "Lite"})`,
    async () => {
      const [killed, clean] = [await MilvusLite.start(), await MilvusLite.start()];
      onTestFinished(async () => {
        await Promise.all([killed.close(), clean.close()]);
      });
      await survivesKills(killed.url, clean.url);
    },
  );
});
