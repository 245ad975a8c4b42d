/** The schema of a collection of ours: made on demand, and compared with what a server has. */
import { createHash } from "node:crypto";
import { EngineError } from "#base";
import type { MilvusConnection, SdkClient } from "./milvus-client.ts";
import { MilvusRefusal } from "./milvus-errors.ts";
import type { CorpusSpec } from "./vector-store.ts";

/** A corpus's embedder and dimensions: corpora that share them share a collection. */
export type CollectionSpec = Pick<CorpusSpec, "dimensions" | "embedder"> & {
  /** The server weighed words when the collection was made; it stays so after an upgrade. */
  readonly hasBm25: boolean;
};

export const COLLECTION_PREFIX = "perigee_";
const KEY_LENGTH = 160;
const DOCUMENT_LENGTH = 16_384;
const HASH_LENGTH = 512;
const TEXT_LENGTH = 65_535;
const BM25_FUNCTION = "words_to_sparse";
const CONNECTIVITY = 16;
const EXPANSION = 200;

/** A field as it is wanted and as it is found. */
interface Field {
  readonly name: string;
  readonly type: string;
  readonly dimensions?: number;
  readonly isKey?: boolean;
  readonly length?: number;
  readonly analyzer?: boolean;
}

/** Of the first 16 hex digits of the embedder's digest: no other embedder's has the same name. */
export function collectionOf({
  dimensions,
  embedder,
}: Pick<CorpusSpec, "dimensions" | "embedder">): string {
  const digest = createHash("sha256").update(embedder).digest("hex").slice(0, 16);
  return `${COLLECTION_PREFIX}${dimensions}_${digest}`;
}

function fieldsOf(dimensions: number, hasBm25: boolean): readonly Field[] {
  return [
    { name: "key", type: "VarChar", isKey: true, length: KEY_LENGTH },
    { name: "document", type: "VarChar", length: DOCUMENT_LENGTH },
    { name: "hash", type: "VarChar", length: HASH_LENGTH },
    { name: "place", type: "Int64" },
    { name: "text", type: "VarChar", length: TEXT_LENGTH },
    { name: "words", type: "VarChar", length: TEXT_LENGTH, analyzer: hasBm25 },
    { name: "about", type: "JSON" },
    { name: "attributes", type: "JSON" },
    { name: "vector", type: "FloatVector", dimensions },
    { name: "sparse", type: "SparseFloatVector" },
  ];
}

/** Makes the collection with its indexes, or what of it is missing, and loads it. */
export async function ensureCollection(
  connection: MilvusConnection,
  spec: CollectionSpec,
): Promise<void> {
  const name = collectionOf(spec);
  const { hasBm25 } = spec;
  const has = await connection.call("make a collection", (client) =>
    client.hasCollection({ collection_name: name }),
  );
  if (!has.value) {
    await connection.call("make a collection", (client) =>
      client.createCollection({
        collection_name: name,
        fields: fieldsOf(spec.dimensions, hasBm25).map(sdkField),
        consistency_level: "Strong",
        ...(hasBm25 ? { functions: [bm25Function()] } : {}),
      }),
    );
  }
  await checkCollection(connection, name, spec);
  const found = await indexesOf(connection, name);
  if (found.get("vector") === undefined) await indexVectors(connection, name);
  if (found.get("sparse") === undefined) await indexWords(connection, name, hasBm25);
  await connection.load(name);
}

/** Whether a collection is there and has what is needed to ask of which embedder it is. */
export async function hasOurForm(connection: MilvusConnection, name: string): Promise<boolean> {
  const has = await connection.call("open a collection", (client) =>
    client.hasCollection({ collection_name: name }),
  );
  if (!has.value) return false;
  const described = await connection.call("open a collection", (client) =>
    client.describeCollection({ collection_name: name }),
  );
  const fields = described.schema.fields.map((field) => field.name);
  if (!fields.includes("key") || !fields.includes("attributes")) return false;
  const indexes = await indexesOf(connection, name);
  return indexes.has("vector") && indexes.has("sparse");
}

/** Throws CORPUS_INVALID where a collection under our name is not as we make it. */
export async function checkCollection(
  connection: MilvusConnection,
  name: string,
  { dimensions, hasBm25 }: CollectionSpec,
): Promise<void> {
  const described = await connection.call("open a collection", (client) =>
    client.describeCollection({ collection_name: name }),
  );
  const { fields, functions } = described.schema;
  for (const wanted of fieldsOf(dimensions, hasBm25)) {
    const field = fields.find((one) => one.name === wanted.name);
    const found =
      field === undefined
        ? "no such field"
        : kindOf(String(field.data_type), field.dim, field.is_primary_key);
    const expected = kindOf(wanted.type, wanted.dimensions, wanted.isKey);
    if (found !== expected) throw foreign(name, `a field ${wanted.name} of ${expected}`, found);
  }
  const outputs = (functions ?? []).flatMap((one) => one.output_field_names ?? []);
  if (hasBm25 && !outputs.includes("sparse")) {
    throw foreign(name, "a BM25 function for its field sparse", "none");
  }
  const indexes = await indexesOf(connection, name);
  const metric = indexes.get("vector") ?? "COSINE";
  if (metric !== "COSINE") throw foreign(name, "an index of the metric COSINE", metric);
}

function kindOf(type: string, dimensions: unknown, isKey: unknown): string {
  const size = dimensions === undefined || dimensions === null ? "" : `[${dimensions}]`;
  return `${isKey === true ? "key " : ""}${type}${type === "FloatVector" ? size : ""}`;
}

/** Metrics of a collection's indexes, by field. */
async function indexesOf(connection: MilvusConnection, name: string): Promise<Map<string, string>> {
  const described = await connection.call("open a collection", async (client) => {
    const answer = await client.describeIndex({ collection_name: name });
    // Servers call it an error that there is none.
    const isNone = /index not found|no index/i.test(answer.status?.reason ?? "");
    return isNone ? { ...answer, status: { ...answer.status, code: 0 } } : answer;
  });
  return new Map(
    described.index_descriptions.map(({ field_name, params }) => [
      field_name,
      String(params.find(({ key }) => key === "metric_type")?.value ?? ""),
    ]),
  );
}

async function indexVectors(connection: MilvusConnection, name: string): Promise<void> {
  const index = { collection_name: name, field_name: "vector", metric_type: "COSINE" };
  const params = { M: CONNECTIVITY, efConstruction: EXPANSION };
  await indexed(connection, [
    { ...index, index_type: "HNSW", params },
    { ...index, index_type: "AUTOINDEX" },
  ]);
}

async function indexWords(
  connection: MilvusConnection,
  name: string,
  hasBm25: boolean,
): Promise<void> {
  const metric_type = hasBm25 ? "BM25" : "IP";
  const index = { collection_name: name, field_name: "sparse", metric_type };
  await indexed(connection, [
    { ...index, index_type: "SPARSE_INVERTED_INDEX" },
    { ...index, index_type: "AUTOINDEX" },
  ]);
}

/** The first that the server takes: clouds choose the kind of an index themselves. */
async function indexed(
  connection: MilvusConnection,
  choices: readonly Parameters<SdkClient["createIndex"]>[0][],
): Promise<void> {
  await connection.call("make an index", async (client) => {
    let answer: Awaited<ReturnType<SdkClient["createIndex"]>> | null = null;
    for (const choice of choices) {
      answer = await client.createIndex(choice);
      if (answer.code === 0) return answer;
    }
    throw new MilvusRefusal({ ...answer });
  });
}

function sdkField(field: Field) {
  return {
    name: field.name,
    data_type: field.type as "VarChar",
    ...(field.isKey ? { is_primary_key: true } : {}),
    ...(field.length === undefined ? {} : { max_length: field.length }),
    ...(field.dimensions === undefined ? {} : { dim: field.dimensions }),
    // Its words are cut and folded already, and apart by spaces.
    ...(field.analyzer
      ? { enable_analyzer: true, analyzer_params: { tokenizer: "standard" } }
      : {}),
  };
}

function bm25Function() {
  return {
    name: BM25_FUNCTION,
    type: 1,
    input_field_names: ["words"],
    output_field_names: ["sparse"],
    params: {},
  };
}

function foreign(name: string, wanted: string, found: string): EngineError {
  return new EngineError(
    "CORPUS_INVALID",
    `Cannot use the collection ${name}: it must have ${wanted}, current value is ${found}; ` +
      "rename or drop the collection, or use another database",
    { param: "corpus" },
  );
}
