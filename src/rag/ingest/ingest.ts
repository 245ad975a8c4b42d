/** Files and folders become stored chunks. */
import type { IngestEvent } from "./events.ts";
import { Ingestion, type IngestOptions } from "./ingestion.ts";

/**
 * Brings a corpus up to date with files, folders and patterns: reads what is new or changed, and
 * removes documents below them whose files are gone. Reading, embedding and storing overlap; they
 * wait while events are not taken. Progress is in the store alone: after an error, a cancellation
 * or the end of the process, the same call goes on where the last one stopped.
 *
 * Throws INVALID_ARGUMENT, CORPUS_INVALID, the store's or embedder's error after a bounded number
 * of calls, or the signal's reason. A file that cannot be read is no error: it is in the report.
 */
export async function* ingest(
  paths: readonly string[],
  options: IngestOptions,
): AsyncGenerator<IngestEvent, void> {
  yield* new Ingestion(paths, options).round(null);
}
