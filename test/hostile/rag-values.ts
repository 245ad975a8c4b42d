/**
 * Which values each field of a request to files and vector stores is given, as in field-values.ts.
 * `STORE` and `FILE` stand for ids that are there.
 */
import type { z } from "zod";
import {
  BatchCreation,
  MemberCreation,
  MemberUpdate,
  SearchRequest,
  StoreCreation,
  StoreUpdate,
} from "../../src/rag/http/request-params.ts";
import type { FieldValues } from "./field-values.ts";
import { type JsonFields, nested, repeated } from "./json-text.ts";
import * as family from "./value-families.ts";

/** A route below /v1/vector_stores, and a small right body for it. */
export interface RagRoute {
  readonly path: string;
  readonly schema: z.ZodType;
  readonly body: JsonFields;
  readonly values: Readonly<Record<string, FieldValues>>;
}

const { flag, text, integer, number, word, list, object } = family;

const id: family.Family = {
  right: ['"FILE"'],
  hostile: [...text.hostile, '"file-"', '"file-00000000000000000000000z"', '"../FILE"', '"STORE"'],
};
const pairs: readonly family.Value[] = [
  ...['{"a":1e309}', '{"a":"\\u0000"}', '{"path":"x"}', '{"a b":1}', '{"a":{"b":1}}', '{"a":[1]}'],
  () => `{${Array.from({ length: 17 }, (_, at) => `"k${at}":"v"`).join(",")}}`,
  () => `{"a":"${"x".repeat(200_000)}"}`,
];
const attributes: FieldValues = object(['{"year":1931,"kind_of":"bridge","old":true}'], pairs);
const chunking = (around: string): Readonly<Record<string, FieldValues>> => {
  const within = (value: string) => around.replace("$", value);
  const size = (value: string) =>
    within(`{"type":"static","static":{"max_chunk_size_tokens":200,${value}}}`);
  return {
    "chunking_strategy.type": { ...word('"auto"'), around: within('{"type":$}') },
    "chunking_strategy.static": {
      ...object(['{"max_chunk_size_tokens":200,"chunk_overlap_tokens":50}']),
      around: within('{"type":"static","static":$}'),
    },
    "chunking_strategy.static.max_chunk_size_tokens": {
      ...integer("100", "4096"),
      around: within(
        '{"type":"static","static":{"max_chunk_size_tokens":$,"chunk_overlap_tokens":0}}',
      ),
    },
    "chunking_strategy.static.chunk_overlap_tokens": {
      ...integer("0", "100"),
      around: size('"chunk_overlap_tokens":$'),
    },
  };
};
const strategies: Readonly<Record<string, FieldValues>> = {
  chunking_strategy: object(['{"type":"auto"}']),
  ...chunking("$"),
};
const expiry: Readonly<Record<string, FieldValues>> = {
  expires_after: object(['{"anchor":"last_active_at","days":1}']),
  "expires_after.anchor": { ...word('"last_active_at"'), around: '{"anchor":$,"days":1}' },
  "expires_after.days": { ...integer("1"), around: '{"anchor":"last_active_at","days":$}' },
};
const named: Readonly<Record<string, FieldValues>> = {
  name: text,
  metadata: object(['{"a":"b"}'], pairs),
  ...expiry,
};
const members: Readonly<Record<string, FieldValues>> = {
  file_id: id,
  attributes,
  ...strategies,
};
/** Of the files of a batch, in a list. */
const inFiles = Object.fromEntries(
  Object.entries(members).map(([field, values]) => {
    const [top = ""] = field.split(".", 1);
    const own = top === "file_id" ? "" : '"file_id":"FILE",';
    const around = `[{${own}"${top}":${values.around ?? "$"}}]`;
    return [`files[].${field}`, { ...values, around }];
  }),
);

const one = '{"type":"eq","key":"a","value":1}';
/** Filters of searches, also in chats. */
export const filters: FieldValues = object(
  [one, `{"type":"or","filters":[${one},${one}]}`, '{"type":"in","key":"a","value":["b",1]}'],
  [
    ...['{"type":"eq","key":"a"}', '{"type":"eq","key":1,"value":1}', '{"type":"and"}'],
    ...['{"type":"eq","key":"__proto__","value":1}', '{"type":"like","key":"a","value":"%"}'],
    ...['{"type":"gt","key":"a","value":true}', '{"type":"in","key":"a","value":[[1]]}'],
    ...['{"type":"and","filters":[]}', '{"type":"and","filters":[null]}'],
    ...["' or 1=1 --", '\\" || true', "a\\u0000b"].map(
      (value) => `{"type":"eq","key":"a","value":"${value}"}`,
    ),
    () => `{"type":"and","filters":${repeated(one, 5_000)}}`,
    () => `{"type":"in","key":"a","value":${repeated("1", 50_000)}}`,
    () => `${'{"type":"and","filters":['.repeat(30)}${one}${"]}".repeat(30)}`,
    () => `{"type":"or","filters":${nested(60)}}`,
  ],
);
/** Options of ranking, also in chats. */
export const ranking = (around: string): Readonly<Record<string, FieldValues>> => ({
  ranking_options: object(['{"ranker":"none","score_threshold":0.5}']),
  "ranking_options.ranker": {
    ...word('"auto"', '"none"'),
    around: around.replace("$", '{"ranker":$}'),
  },
  "ranking_options.score_threshold": {
    ...number("0", "1"),
    around: around.replace("$", '{"score_threshold":$}'),
  },
});

const fileIds = list('"FILE"', ['["FILE"]'], [...family.strangeTextLists]);

export const RAG_ROUTES: readonly RagRoute[] = [
  {
    ...{ path: "/v1/vector_stores", schema: StoreCreation, body: {} },
    values: { ...named, description: text, file_ids: fileIds, ...strategies },
  },
  { path: "/v1/vector_stores/STORE", schema: StoreUpdate, body: {}, values: named },
  {
    ...{ path: "/v1/vector_stores/STORE/files", schema: MemberCreation },
    ...{ body: { file_id: '"FILE"' }, values: members },
  },
  {
    ...{ path: "/v1/vector_stores/STORE/files/FILE", schema: MemberUpdate },
    ...{ body: { attributes: "{}" }, values: { attributes } },
  },
  {
    ...{ path: "/v1/vector_stores/STORE/file_batches", schema: BatchCreation, body: {} },
    values: {
      ...{ file_ids: fileIds, files: list('{"file_id":"FILE"}', ['[{"file_id":"FILE"}]']) },
      ...{ attributes: { ...attributes, beside: { file_ids: '["FILE"]' } } },
      ...{ ...strategies, ...inFiles },
    },
  },
  {
    ...{ path: "/v1/vector_stores/STORE/search", schema: SearchRequest },
    body: { query: '"a bridge"' },
    values: {
      query: list('"a"', ['"a bridge"', '["a","b"]'], [...text.hostile]),
      ...{ filters, max_num_results: integer("1", "50"), rewrite_query: flag },
      ...ranking("$"),
    },
  },
];
