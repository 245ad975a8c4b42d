/**
 * rag/ingest: documents become stored chunks, and stay equal to their files.
 *
 *   ingest.ts            the call: a pipeline of three parts that work at the same time
 *   config.ts            settings
 *   events.ts            what it tells
 *   ingest-run.ts        what the parts share
 *   ingest-books.ts      counts and events, and what of the corpus must stay
 *   read-stage.ts        files are found, read and cut
 *   embed-stage.ts       chunks get vectors
 *   store-stage.ts       chunks are stored, so that an interruption is noticed
 *   document-version.ts  what a stored document was made from, and whether it is whole
 *   channel.ts           bounded queues between the parts
 *   retries.ts           calls that are made again
 *
 * Invariant: nothing is kept beside the store; its documents tell where to go on.
 *
 * @module
 */
export { IngestSettings } from "./config.ts";
export type { IngestCounts, IngestEvent, IngestProblem, IngestReport } from "./events.ts";
export { type IngestOptions, ingest } from "./ingest.ts";
