/** Bodies and queries of requests, as OpenAI's API has them. */
import { z } from "zod";
import {
  ATTRIBUTE_LENGTH_MAX,
  ATTRIBUTE_NAME,
  boundedList,
  boundedRecord,
  ID_LENGTH_MAX,
  RESULTS_MAX,
  rankingOptions,
  searchFilter,
} from "#server";
import { LIMITS } from "./config.ts";
import type { Chunking } from "./records.ts";
import type { MemberFields } from "./store-files.ts";

const PAIRS_MAX = 16;
const NAME_LENGTH_MAX = 256;
const QUERY_LENGTH_MAX = 4096;
const QUERIES_MAX = 8;

const cursor = z.string().max(ID_LENGTH_MAX).optional();

/** The fields of a query that ask for a page. */
export const PageQuery = z.strictObject({
  limit: z
    .string()
    .regex(/^\d{1,6}$/, "must be a whole number")
    .optional(),
  order: z.enum(["asc", "desc"]).optional(),
  after: cursor,
  before: cursor,
});

/** What a query of GET /v1/files has beside them. */
export const FileQuery = z.strictObject({ purpose: z.string().max(ID_LENGTH_MAX).optional() });

/** What a query for files of a vector store has beside them. */
export const MemberQuery = z.strictObject({
  filter: z.enum(["in_progress", "completed", "failed", "cancelled"]).optional(),
});

const fileId = z.string().min(1).max(ID_LENGTH_MAX);
const name = z.string().max(NAME_LENGTH_MAX);

const metadata = boundedRecord(z.string().min(1).max(64), z.string().max(ATTRIBUTE_LENGTH_MAX), {
  max: PAIRS_MAX,
});

/** The names that chunks have for themselves. */
const RESERVED = ["path", "kind"];

const attributes = boundedRecord(
  z
    .string()
    .regex(ATTRIBUTE_NAME, "must be 1 to 64 letters, digits, _ or -")
    .refine((key) => !RESERVED.includes(key), `must not be ${RESERVED.join(" or ")}`),
  z.union(
    [z.string().max(ATTRIBUTE_LENGTH_MAX), z.number(), z.boolean()],
    `must be a text of at most ${ATTRIBUTE_LENGTH_MAX} characters, a number, true or false`,
  ),
  { max: PAIRS_MAX },
);

const expiresAfter = z.strictObject({
  anchor: z.literal("last_active_at"),
  days: z.int().min(1).max(365),
});

const chunkingStrategy = z.discriminatedUnion(
  "type",
  [
    z.strictObject({ type: z.literal("auto") }),
    z.strictObject({
      type: z.literal("static"),
      static: z
        .strictObject({
          max_chunk_size_tokens: z.int().min(100).max(4096),
          chunk_overlap_tokens: z.int().min(0),
        })
        .refine((own) => own.chunk_overlap_tokens * 2 <= own.max_chunk_size_tokens, {
          path: ["chunk_overlap_tokens"],
          error: "must be at most half of max_chunk_size_tokens",
        }),
    }),
  ],
  "must have type auto or static",
);

const fileIds = boundedList(fileId, { max: LIMITS.filesOfBatch });

/** Body of POST /v1/vector_stores. */
export const StoreCreation = z.strictObject({
  name: name.nullish(),
  description: z.string().max(ATTRIBUTE_LENGTH_MAX).nullish(),
  file_ids: fileIds.nullish(),
  chunking_strategy: chunkingStrategy.nullish(),
  expires_after: expiresAfter.nullish(),
  metadata: metadata.nullish(),
});

/** Body of POST /v1/vector_stores/{id}. */
export const StoreUpdate = z.strictObject({
  name: name.nullish(),
  expires_after: expiresAfter.nullish(),
  metadata: metadata.nullish(),
});

const memberFields = {
  file_id: fileId,
  attributes: attributes.nullish(),
  chunking_strategy: chunkingStrategy.nullish(),
};

/** Body of POST /v1/vector_stores/{id}/files. */
export const MemberCreation = z.strictObject(memberFields);

/** Body of POST /v1/vector_stores/{id}/files/{file}. */
export const MemberUpdate = z.strictObject({ attributes: attributes.nullable() });

/** Body of POST /v1/vector_stores/{id}/file_batches. */
export const BatchCreation = z
  .strictObject({
    file_ids: fileIds.nullish(),
    files: boundedList(z.strictObject(memberFields), { max: LIMITS.filesOfBatch }).nullish(),
    attributes: attributes.nullish(),
    chunking_strategy: chunkingStrategy.nullish(),
  })
  .refine((batch) => (batch.file_ids ?? []).length > 0 !== (batch.files ?? []).length > 0, {
    path: ["file_ids"],
    error: "must name files, or files must: one of the two",
  });
export type BatchCreation = z.output<typeof BatchCreation>;

const query = z.string().min(1).max(QUERY_LENGTH_MAX);

/** Body of POST /v1/vector_stores/{id}/search. */
export const SearchRequest = z.strictObject({
  query: z.union(
    [query, boundedList(query, { min: 1, max: QUERIES_MAX })],
    `must be 1 to ${QUERIES_MAX} texts of 1 to ${QUERY_LENGTH_MAX} characters`,
  ),
  filters: searchFilter.nullish(),
  max_num_results: z.int().min(1).max(RESULTS_MAX).nullish(),
  ranking_options: rankingOptions.nullish(),
  /** Accepted: words and meaning are searched as they are asked for. */
  rewrite_query: z.boolean().nullish(),
});
export type SearchRequest = z.output<typeof SearchRequest>;

/** What a request says of how a file is cut. */
export function chunkingOf(strategy: z.output<typeof chunkingStrategy> | null): Chunking {
  if (strategy?.type !== "static") return null;
  const { max_chunk_size_tokens: chunkTokens, chunk_overlap_tokens: overlapTokens } =
    strategy.static;
  return { chunkTokens, overlapTokens };
}

/** A file that a request wants in a store. */
export function memberOf(fields: z.output<typeof MemberCreation>): MemberFields {
  return {
    fileId: fields.file_id,
    attributes: fields.attributes ?? {},
    chunking: chunkingOf(fields.chunking_strategy ?? null),
  };
}

/** The files of a batch: what it says of all of them holds where one says nothing of its own. */
export function membersOf(batch: BatchCreation): MemberFields[] {
  const { attributes: all, chunking_strategy: strategy } = batch;
  const files = batch.files ?? (batch.file_ids ?? []).map((id) => ({ file_id: id }));
  return files.map((file) => {
    const common = { attributes: all, chunking_strategy: strategy };
    return memberOf({ ...common, ...withoutNull(file), file_id: file.file_id });
  });
}

function withoutNull(fields: object): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null));
}
