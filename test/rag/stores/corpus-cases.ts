/** Chunks, filters and histories of a corpus, as contracts and random tests make them. */
import fc from "fast-check";
import type { Filter, StoreQuery } from "#rag/stores";
import { type Attributes, chunkId, type StoredChunk } from "#rag/texts";

export const DIMENSIONS = 4;

/** What a chunk is made of; all else has a default. */
export interface ChunkParts {
  readonly document: string;
  readonly hash?: string;
  readonly index?: number;
  readonly text?: string;
  readonly attributes?: Attributes;
  readonly vector?: readonly number[];
}

export function chunkOf(parts: ChunkParts): StoredChunk {
  const { document, hash = "h1", index = 0, text = "some words", attributes = {} } = parts;
  return {
    id: chunkId(document, index, text),
    documentId: document,
    documentHash: hash,
    index,
    text,
    place: { lines: [index + 1, index + 2], page: null, headings: ["Top", `Part ${index}`] },
    attributes,
    vector: unit(parts.vector ?? [1, index, 0, 0]),
  };
}

/** A vector of length 1. */
export function unit(elements: readonly number[]): Float32Array {
  const length = Math.hypot(...elements) || 1;
  const vector = Float32Array.from(elements, (element) => element / length);
  if (!elements.some((element) => element !== 0)) vector[0] = 1;
  return vector;
}

export function byVector(elements: readonly number[], rest: Partial<StoreQuery> = {}): StoreQuery {
  return { vector: unit(elements), text: null, limit: 10, filter: null, ...rest };
}

export function byText(text: string, rest: Partial<StoreQuery> = {}): StoreQuery {
  return { vector: null, text, limit: 10, filter: null, ...rest };
}

const KEYS = ["lang", "size", "open", "a-b_c"];
const scalars = fc.oneof(
  fc.constantFrom("en", "de", "", "1", "true", 'a"b\\c', "%", "ü", "it's", "null"),
  fc.constantFrom(0, 1, 2, -1, 1.5, 1e9),
  fc.boolean(),
);

export const attributeSets: fc.Arbitrary<Attributes> = fc.dictionary(
  fc.constantFrom(...KEYS),
  scalars,
  { maxKeys: 3, noNullPrototype: true },
);

const comparisons: fc.Arbitrary<Filter> = fc.oneof(
  fc.record({
    type: fc.constantFrom("eq", "ne", "gt", "gte", "lt", "lte"),
    key: fc.constantFrom(...KEYS, "absent"),
    value: scalars,
  }),
  fc.record({
    type: fc.constantFrom("in", "nin"),
    key: fc.constantFrom(...KEYS, "absent"),
    value: fc.array(fc.oneof(fc.constantFrom("en", "de", "ü", "1"), fc.constantFrom(0, 1, 1.5)), {
      maxLength: 4,
    }),
  }),
);

export const filters: fc.Arbitrary<Filter> = fc.letrec<{ filter: Filter }>((tie) => ({
  filter: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    comparisons,
    fc.record({
      type: fc.constantFrom("and", "or"),
      filters: fc.array(tie("filter"), { maxLength: 3 }),
    }),
  ),
})).filter;

const WORDS = ["cache", "block", "Prefix", "tree", "über", "parseHeader", "42", "水道水", "the"];
const texts = fc
  .array(fc.constantFrom(...WORDS), { minLength: 0, maxLength: 6 })
  .map((words) => words.join(" "));
/** Few directions, so that there are ties. */
const vectors = fc.array(fc.integer({ min: -2, max: 2 }), {
  minLength: DIMENSIONS,
  maxLength: DIMENSIONS,
});

const documents = fc.constantFrom("a.md", "b/c.md", 'q"uote\\.md', "über.md");

export const chunks: fc.Arbitrary<StoredChunk> = fc
  .record({
    document: documents,
    hash: fc.constantFrom("h1", "h2"),
    index: fc.integer({ min: 0, max: 5 }),
    text: texts,
    attributes: attributeSets,
    vector: vectors,
  })
  .map(chunkOf);

export const queries: fc.Arbitrary<StoreQuery> = fc
  .record({
    vector: fc.option(vectors.map(unit), { nil: null }),
    text: fc.option(texts, { nil: null }),
    limit: fc.constantFrom(1, 2, 5, 50),
    filter: fc.option(filters, { nil: null }),
  })
  .filter(({ vector, text }) => vector !== null || text !== null);

/** One call of a store. */
export type Step =
  | { readonly type: "upsert"; readonly chunks: readonly StoredChunk[] }
  | { readonly type: "delete"; readonly document: string; readonly keep: readonly number[] }
  | { readonly type: "search"; readonly query: StoreQuery }
  | { readonly type: "count"; readonly filter: Filter | null }
  | { readonly type: "list" }
  | { readonly type: "reopen" };

export const histories: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.array(chunks, { maxLength: 8 }).map(stepOf("upsert", "chunks")) },
    {
      weight: 2,
      arbitrary: fc.record({
        type: fc.constant("delete" as const),
        document: documents,
        keep: fc.array(fc.nat(5), { maxLength: 2 }),
      }),
    },
    { weight: 6, arbitrary: queries.map(stepOf("search", "query")) },
    { weight: 2, arbitrary: fc.option(filters, { nil: null }).map(stepOf("count", "filter")) },
    { weight: 1, arbitrary: fc.constant({ type: "list" as const }) },
    { weight: 1, arbitrary: fc.constant({ type: "reopen" as const }) },
  ),
  { minLength: 1, maxLength: 30 },
);

function stepOf<Type extends string, Field extends string>(type: Type, field: Field) {
  return <Value>(value: Value) =>
    ({ type, [field]: value }) as { readonly type: Type } & Readonly<Record<Field, Value>>;
}
