/**
 * rag/readers: documents from files, folders and addresses.
 *
 *   reader.ts            the contract of what understands one kind of file
 *   roots.ts             files, folders and patterns that are asked for, and their documents
 *   file-walk.ts         the files below a root
 *   folder-watch.ts      changes in folders
 *   ignore-rules.ts      `.gitignore`
 *   address-fetch.ts     documents of the web
 *   address-guard.ts     which addresses of the network may be read
 *   reader-process.ts    reads files in a process that is ended at limits of time and memory
 *   reading-process.ts   that process
 *   read-messages.ts     what the two tell each other
 *   reader-choice.ts     which reader a file has
 *   text-bytes.ts        text in bytes of an unknown encoding
 *   section-list.ts      sections of a text by its places
 *   text-reader.ts, markdown-reader.ts, html-reader.ts, pdf-reader.ts   one document each
 *   code-reader.ts, code-languages.ts   source code by its grammar
 *   json-lines-reader.ts, csv-reader.ts, row-document.ts   a document for each row
 *
 * Invariant: bytes of files are parsed in reading processes alone.
 *
 * @module
 */
export {
  type AddressLimits,
  type FetchedPage,
  fetchAddress,
  isWebAddress,
} from "./address-fetch.ts";
export { isPublicAddress, type NetworkAddress, type Resolve } from "./address-guard.ts";
export { type Found, type FoundFile, walk } from "./file-walk.ts";
export { FolderWatch } from "./folder-watch.ts";
export type { ReadJob } from "./read-messages.ts";
export type { FileContent, Reader, ReadProblem } from "./reader.ts";
export { ReaderProcess, type ReadLimits } from "./reader-process.ts";
export { documentName, isBelow, type Root, rootsOf } from "./roots.ts";
