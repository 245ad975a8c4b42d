/** The parts of an ingestion at work, at the same time. */
import { isBelow } from "#rag/readers";
import { Channel } from "./channel.ts";
import { EmbedStage } from "./embed-stage.ts";
import type { CutDocument, EmbeddedChunk, IngestRun } from "./ingest-run.ts";
import { ReadStage } from "./read-stage.ts";
import type { Sources } from "./sources.ts";
import { StoreStage } from "./store-stage.ts";

/**
 * Documents that wait for their vectors: as many as have chunks together, or one of any length; and
 * batches of chunks that wait for the store.
 */
const CHUNKS_AHEAD = 2000;
const BATCHES_AHEAD = 4;

/** Brings the corpus up to date; the first failure of a part ends the others. Tells a report. */
export async function runPipeline(run: IngestRun, sources: Sources): Promise<void> {
  const { signal, books } = run.parts;
  const cut = new Channel<CutDocument>(CHUNKS_AHEAD, weightOf);
  const embedded = new Channel<readonly EmbeddedChunk[]>(BATCHES_AHEAD);
  const reading = new ReadStage(run, sources, cut);
  const stop = (reason: unknown) => {
    cut.fail(reason);
    embedded.fail(reason);
    reading.close();
  };
  const onAbort = () => stop(signal.reason);
  signal.addEventListener("abort", onAbort);
  if (signal.aborted) onAbort();
  const stages = [
    reading.work(),
    new EmbedStage(run, embedded).work(cut),
    new StoreStage(run).work(embedded),
  ];
  try {
    await firstFailure(stages, stop);
    signal.throwIfAborted();
    await removeGone(run, sources);
    await books.events.add({ type: "report", ...books.report() });
  } catch (error) {
    // What was ended fails in its own way.
    throw signal.aborted ? signal.reason : error;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** A document without chunks counts, too. */
function weightOf({ missing }: CutDocument): number {
  return missing.length + 1;
}

/** Waits for all; throws the reason of the one that failed first. */
async function firstFailure(
  stages: readonly Promise<void>[],
  stop: (reason: unknown) => void,
): Promise<void> {
  let first: { readonly reason: unknown } | null = null;
  const noted = stages.map((stage) =>
    stage.catch((reason: unknown) => {
      first ??= { reason };
      stop(reason);
    }),
  );
  await Promise.all(noted);
  if (first !== null) throw (first as { readonly reason: unknown }).reason;
}

/** Removes documents below the roots whose files are no longer there. */
async function removeGone(run: IngestRun, { roots }: Sources): Promise<void> {
  const { store, corpus, stored, books } = run.parts;
  for (const { id, chunks } of stored.values()) {
    if (!books.mayBeGone(id) || !roots.some((root) => isBelow(root, id))) continue;
    await run.retried(() => store.deleteDocument(corpus, id));
    stored.delete(id);
    await books.settled(id, "removed", chunks);
  }
}
