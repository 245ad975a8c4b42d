/** What stores are given, checked once for all of them. */
import { EngineError, isPlainObject, valueText } from "#base";
import type { Chunk, StoredChunk } from "#rag/texts";
import type { Comparison, Filter } from "./filter.ts";
import type { CorpusSpec, StoreQuery } from "./vector-store.ts";

const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const ATTRIBUTE_NAME = /^[A-Za-z0-9_-]{1,128}$/;
const DIMENSIONS_MAX = 32_768;
const ID_LENGTH_MAX = 64;
const DOCUMENT_LENGTH_MAX = 4096;
/** The longest text of a field of Milvus, in UTF-8. */
const TEXT_BYTES_MAX = 65_535;
const ATTRIBUTES_MAX = 64;
const ATTRIBUTE_LENGTH_MAX = 4096;
const RESULTS_MAX = 1000;
const QUESTION_LENGTH_MAX = 100_000;
const COMPARISONS_MAX = 256;
const LISTED_VALUES_MAX = 1000;
const FILTER_DEPTH_MAX = 16;
/** Of a squared length: half precision and float32 sums stay within it. */
const LENGTH_TOLERANCE = 0.02;
const SCALAR = `a finite number, a boolean or a text of at most ${ATTRIBUTE_LENGTH_MAX} characters`;
const COMPARISONS = ["eq", "ne", "gt", "gte", "lt", "lte"];
const LISTINGS = ["in", "nin"];

/** Throws INVALID_ARGUMENT unless a corpus can be made so. */
export function checkCorpus(corpus: CorpusSpec): void {
  const action = "make the corpus";
  checkName(corpus.name);
  require(isWholeIn(corpus.dimensions, 1, DIMENSIONS_MAX), action, "dimensions", {
    wanted: `a whole number from 1 to ${DIMENSIONS_MAX}`,
    value: corpus.dimensions,
  });
  require(isText(corpus.embedder, 1, 1024), action, "embedder", {
    wanted: "a text of 1 to 1024 characters",
    value: corpus.embedder,
  });
}

/** Throws INVALID_ARGUMENT unless a corpus may have this name. */
export function checkName(name: string): void {
  require(typeof name === "string" && NAME.test(name), "name a corpus", "corpus", {
    wanted: "1 to 64 letters, digits, _ and -",
    value: name,
  });
}

/** Throws INVALID_ARGUMENT unless the chunks can be stored in a corpus of these dimensions. */
export function checkChunks(chunks: readonly StoredChunk[], dimensions: number): void {
  for (const chunk of chunks) {
    checkChunk(chunk);
    checkVector(chunk.vector, dimensions, "store a chunk");
  }
}

function checkChunk(chunk: Chunk): void {
  const action = "store a chunk";
  const texts = [
    ["id", chunk.id, 1, ID_LENGTH_MAX],
    ["documentId", chunk.documentId, 1, DOCUMENT_LENGTH_MAX],
    ["documentHash", chunk.documentHash, 0, 128],
    ["text", chunk.text, 0, TEXT_BYTES_MAX],
  ] as const;
  for (const [param, value, least, most] of texts) {
    const wanted = `a text of ${least} to ${most} characters without lone surrogates`;
    require(isText(value, least, most), action, param, { wanted, value });
  }
  const textBytes = Buffer.byteLength(chunk.text);
  require(textBytes <= TEXT_BYTES_MAX, action, "text", {
    wanted: `a text of at most ${TEXT_BYTES_MAX} bytes`,
    value: textBytes,
  });
  require(isWholeIn(chunk.index, 0, 2 ** 31 - 1), action, "index", {
    wanted: "a whole number from 0 on",
    value: chunk.index,
  });
  checkAttributes(chunk.attributes);
}

function checkAttributes(attributes: Chunk["attributes"]): void {
  const action = "store a chunk";
  const entries = Object.entries(attributes);
  require(entries.length <= ATTRIBUTES_MAX, action, "attributes", {
    wanted: `at most ${ATTRIBUTES_MAX}`,
    value: entries.length,
  });
  for (const [name, value] of entries) {
    require(ATTRIBUTE_NAME.test(name), action, "attributes", {
      wanted: "names of 1 to 128 letters, digits, _ and -",
      value: name,
    });
    require(isScalar(value), action, `attributes.${name}`, {
      wanted: SCALAR,
      value,
    });
  }
}

function checkVector(vector: Float32Array, dimensions: number, action: string): void {
  const isRight = vector instanceof Float32Array && vector.length === dimensions;
  require(isRight, action, "vector", {
    wanted: `${dimensions} numbers`,
    value: vector?.length ?? null,
  });
  let squares = 0;
  for (const element of vector) squares += element * element;
  require(Math.abs(squares - 1) <= LENGTH_TOLERANCE, action, "vector", {
    wanted: "a vector of length 1",
    value: Math.sqrt(squares),
  });
}

/** Throws INVALID_ARGUMENT unless a corpus of these dimensions can be searched so. */
export function checkQuery(query: StoreQuery, dimensions: number): void {
  const action = "search";
  require(isWholeIn(query.limit, 1, RESULTS_MAX), action, "limit", {
    wanted: `a whole number from 1 to ${RESULTS_MAX}`,
    value: query.limit,
  });
  require(query.vector !== null || query.text !== null, action, "query", {
    wanted: "a vector, a text or both",
    value: null,
  });
  if (query.vector !== null) checkVector(query.vector, dimensions, action);
  require(query.text === null || isText(query.text, 0, QUESTION_LENGTH_MAX), action, "text", {
    wanted: `a text of at most ${QUESTION_LENGTH_MAX} characters without lone surrogates`,
    value: query.text,
  });
  checkFilter(query.filter);
}

/** Throws INVALID_ARGUMENT unless it is a filter of bounded size; null is one. */
export function checkFilter(filter: Filter | null): void {
  if (filter !== null) checkFilters([filter], 1, { comparisons: 0 });
}

function checkFilters(filters: readonly Filter[], depth: number, seen: { comparisons: number }) {
  require(depth <= FILTER_DEPTH_MAX, "filter", "filters", {
    wanted: `filters within each other at most ${FILTER_DEPTH_MAX} deep`,
    value: depth,
  });
  for (const filter of filters) {
    require(isPlainObject(filter), "filter", "filters", { wanted: "an object", value: filter });
    if (filter.type === "and" || filter.type === "or") {
      require(Array.isArray(filter.filters), "filter", "filters", {
        wanted: "a list of filters",
        value: filter.filters,
      });
      checkFilters(filter.filters, depth + 1, seen);
    } else {
      checkComparison(filter as Comparison);
    }
    seen.comparisons++;
    require(seen.comparisons <= COMPARISONS_MAX, "filter", "filters", {
      wanted: `at most ${COMPARISONS_MAX} comparisons`,
      value: "more",
    });
  }
}

function checkComparison(filter: Comparison): void {
  const { type, key, value } = filter;
  require(typeof key === "string" && ATTRIBUTE_NAME.test(key), "filter", "key", {
    wanted: "a name of 1 to 128 letters, digits, _ and -",
    value: key,
  });
  if (COMPARISONS.includes(type)) {
    require(!Array.isArray(value) && isScalar(value), "filter", "value", {
      wanted: SCALAR,
      value,
    });
    return;
  }
  require(LISTINGS.includes(type), "filter", "type", {
    wanted: `one of ${[...COMPARISONS, ...LISTINGS, "and", "or"].join(", ")}`,
    value: type,
  });
  const isList = Array.isArray(value) && value.length <= LISTED_VALUES_MAX;
  require(isList &&
    value.every((one) => typeof one !== "boolean" && isScalar(one)), "filter", "value", {
    wanted: `a list of at most ${LISTED_VALUES_MAX} texts and numbers`,
    value,
  });
}

function isScalar(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  return typeof value === "boolean" || isText(value, 0, ATTRIBUTE_LENGTH_MAX);
}

/** Lone surrogates have no form in UTF-8: what is stored could not be found again. */
function isText(value: unknown, least: number, most: number): boolean {
  if (typeof value !== "string" || value.length < least || value.length > most) return false;
  return !/\p{Surrogate}/u.test(value);
}

function isWholeIn(value: unknown, least: number, most: number): boolean {
  return Number.isInteger(value) && (value as number) >= least && (value as number) <= most;
}

function require(
  holds: boolean,
  action: string,
  param: string,
  { wanted, value }: { readonly wanted: string; readonly value: unknown },
): void {
  if (holds) return;
  const state = `${param} must be ${wanted}, current value is ${valueText(value)}`;
  throw new EngineError("INVALID_ARGUMENT", `Cannot ${action}: ${state}`, { param });
}
