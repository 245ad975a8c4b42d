/**
 * rag/readers: documents from files, folders and addresses.
 *
 *   reader.ts   the contract of what understands one kind of file
 *
 * @module
 */
export type { FileContent, Reader } from "./reader.ts";
