/**
 * rag/http: OpenAI's files and vector stores, and `file_search` in chats, as part of a server.
 *
 * A vector store is a corpus of the same name. Uploaded files and all records are in one folder,
 * and outlast the process; files go into vector stores in the background.
 *
 *   rag-extension.ts        all of it, for `startServer`
 *   config.ts               where it is kept, and how much of it
 *   file-routes.ts          files; upload-form.ts: how one arrives, safe-name.ts: what it is called
 *   vector-store-routes.ts  vector stores and searches
 *   store-file-routes.ts    files of vector stores, batches of them
 *   route-parts.ts          what the routes share; page.ts: lists in pages
 *   route-docs.ts           what they take, for the OpenAPI document
 *   request-params.ts       what comes; bodies.ts: what is answered
 *   store-search.ts         searches, and answers of chats
 *   uploaded-files.ts       the bytes of files
 *   vector-stores.ts        vector stores from creation to end; corpora.ts: what they are kept in
 *   store-files.ts          files in them; exclusive.ts: one change of a store at a time
 *   ingest-queue.ts         files on their way in
 *   file-ingest.ts          the contract of what puts them in; rag-ingest.ts: by `ingest`
 *   book.ts, records.ts     what is known of all this; journal.ts, durable-files.ts: on the disk
 *   identifiers.ts          ids that sort
 *
 * Invariant: an answer tells of a change when it is durable.
 * Invariant: no file is whole in memory here.
 *
 * @module
 */
export { RagServing } from "./config.ts";
export { RagExtension, type RagExtensionParts, type RagLimits } from "./rag-extension.ts";
