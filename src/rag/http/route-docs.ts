/** What the routes of files and vector stores take and answer, for the OpenAPI document. */
import type { RouteDoc } from "#server";
import {
  BatchCreation,
  FileQuery,
  MemberCreation,
  MemberQuery,
  MemberUpdate,
  PageQuery,
  SearchRequest,
  StoreCreation,
  StoreUpdate,
} from "./request-params.ts";

const STORES = "/v1/vector_stores";
const STORE = `${STORES}/:store`;
const FILES = `${STORE}/files`;
const BATCHES = `${STORE}/file_batches`;

function under(tag: string, docs: readonly Omit<RouteDoc, "tag">[]): readonly RouteDoc[] {
  return docs.map((doc) => ({ ...doc, tag }));
}

const get = { method: "get", answer: "json" } as const;
const post = { method: "post", answer: "json" } as const;
const remove = { method: "delete", answer: "json" } as const;

const files = under("Files", [
  { ...post, path: "/v1/files", takesForm: true, summary: "Uploads a file" },
  {
    ...{ ...get, path: "/v1/files", query: PageQuery.extend(FileQuery.shape) },
    summary: "The files",
  },
  { ...get, path: "/v1/files/:file", summary: "One file" },
  {
    ...({ ...get, path: "/v1/files/:file/content", answer: "bytes" } as const),
    summary: "A file's content",
  },
  { ...remove, path: "/v1/files/:file", summary: "Deletes a file" },
]);

const stores = under("Vector stores", [
  {
    ...{ ...post, path: STORES, body: { name: "StoreCreation", schema: StoreCreation } },
    summary: "Creates a vector store",
  },
  { ...get, path: STORES, query: PageQuery, summary: "The vector stores" },
  { ...get, path: STORE, summary: "One vector store" },
  {
    ...{ ...post, path: STORE, body: { name: "StoreUpdate", schema: StoreUpdate } },
    summary: "Changes a vector store",
  },
  { ...remove, path: STORE, summary: "Deletes a vector store" },
  {
    ...{ ...post, path: `${STORE}/search` },
    body: { name: "SearchRequest", schema: SearchRequest },
    summary: "Searches a vector store",
  },
]);

const members = under("Files of vector stores", [
  {
    ...{ ...post, path: FILES, body: { name: "MemberCreation", schema: MemberCreation } },
    summary: "Puts a file into a vector store",
  },
  {
    ...{ ...get, path: FILES, query: PageQuery.extend(MemberQuery.shape) },
    summary: "The files of a vector store",
  },
  { ...get, path: `${FILES}/:file`, summary: "One of them" },
  {
    ...{ ...post, path: `${FILES}/:file` },
    body: { name: "MemberUpdate", schema: MemberUpdate },
    summary: "Changes the attributes of a file in a vector store",
  },
  { ...remove, path: `${FILES}/:file`, summary: "Takes a file out of a vector store" },
  { ...get, path: `${FILES}/:file/content`, summary: "The text of a file in a vector store" },
  {
    ...{ ...post, path: BATCHES, body: { name: "BatchCreation", schema: BatchCreation } },
    summary: "Puts many files into a vector store",
  },
  { ...get, path: `${BATCHES}/:batch`, summary: "How far a batch is" },
  { ...post, path: `${BATCHES}/:batch/cancel`, summary: "Cancels what is left of a batch" },
  {
    ...{ ...get, path: `${BATCHES}/:batch/files`, query: PageQuery.extend(MemberQuery.shape) },
    summary: "The files of a batch",
  },
]);

/** Of all routes that the extension adds. */
export const RAG_ROUTES: readonly RouteDoc[] = [...files, ...stores, ...members];
