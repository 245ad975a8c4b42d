/**
 * rag/ingest: documents become stored chunks, and stay equal to their files.
 *
 *   ingest.ts            the call
 *   watch.ts             calls whenever files change
 *   ingestion.ts         options, checked, and rounds over the same sources
 *   sources.ts           what is read: files below roots, and addresses
 *   pipeline.ts          three parts that work at the same time
 *   config.ts            settings
 *   events.ts            what it tells
 *   ingest-run.ts        what the parts share
 *   ingest-books.ts      counts and events, and what of the corpus must stay
 *   read-stage.ts        files are found, read and cut
 *   embed-stage.ts       chunks get vectors
 *   store-stage.ts       chunks are stored, so that an interruption is noticed
 *   document-version.ts  what a stored document was made from, and whether it is whole
 *   channel.ts           bounded queues between the parts
 *   turns.ts             long work, in turns with other work
 *   retries.ts           calls that are made again
 *
 * Invariant: nothing is kept beside the store; its documents tell where to go on.
 *
 * @module
 */
export { IngestSettings } from "./config.ts";
export type { IngestCounts, IngestEvent, IngestProblem, IngestReport } from "./events.ts";
export { ingest } from "./ingest.ts";
export type { IngestOptions } from "./ingestion.ts";
export type { AddressOptions } from "./sources.ts";
export { watch } from "./watch.ts";
