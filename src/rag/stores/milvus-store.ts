/** Corpora in Milvus: Lite, standalone or a cluster, Zilliz Cloud. */
import type { Chunk, StoredChunk } from "#rag/texts";
import { checkChunks, checkCorpus, checkFilter, checkName, checkQuery } from "./argument-checks.ts";
import { closedStore, sameCorpus } from "./corpus-errors.ts";
import type { Filter } from "./filter.ts";
import type { MilvusAddress } from "./milvus-address.ts";
import { MilvusConnection, type Sdk, type SdkClient } from "./milvus-client.ts";
import { MilvusCorpora, type MilvusCorpus } from "./milvus-corpora.ts";
import type { MilvusStatus } from "./milvus-errors.ts";
import { expressionOf, textLiteral } from "./milvus-filter.ts";
import { notesOf } from "./milvus-notes.ts";
import {
  CHUNK_FIELDS,
  chunkOf,
  idOf,
  keyOf,
  type MilvusRow,
  questionWeights,
  questionWords,
  rowOf,
  type SparseVector,
} from "./milvus-rows.ts";
import { MilvusWords } from "./milvus-words.ts";
import { byRank, byText, listLength } from "./ranking.ts";
import type {
  CorpusInfo,
  CorpusSpec,
  Hit,
  StoredDocument,
  StoreInfo,
  StoreQuery,
  VectorStore,
} from "./vector-store.ts";

/** Rows and bytes sent at a time: servers take 64 MB. */
const BATCH_ROWS = 500;
const BATCH_BYTES = 8 << 20;
/** Rows asked for at a time, whole ones and keys with a few fields. */
const PAGE_CHUNKS = 500;
const PAGE_ROWS = 8000;
const KEYS_PER_REMOVAL = 1000;
/** Of the graph's search: at least the library's usual width, and more for more results. */
const EXPANSION_MIN = 64;
const EXPANSION_PER_RESULT = 4;
const RANK_OFFSET = 60;

/** A search of one field. */
interface Part {
  readonly anns_field: string;
  readonly limit: number;
  readonly params: Record<string, number>;
  readonly data: number[] | string | SparseVector;
  readonly metric_type: string;
}

interface SearchAnswer {
  readonly status: MilvusStatus;
  readonly results: MilvusRow[];
}

export class MilvusStore implements VectorStore {
  readonly info: StoreInfo;
  readonly #connection: MilvusConnection;
  readonly #corpora: MilvusCorpora;
  readonly #words: MilvusWords;
  #isClosed = false;

  private constructor(connection: MilvusConnection) {
    this.#connection = connection;
    this.#corpora = new MilvusCorpora(connection);
    this.#words = new MilvusWords(connection);
    this.info = {
      kind: "milvus",
      location: connection.address.location,
      version: connection.features.version,
      text: connection.features.hasBm25 ? "server" : "own",
      notes: notesOf(connection.address, connection.features),
    };
  }

  static async open(address: MilvusAddress, load: () => Promise<Sdk>): Promise<MilvusStore> {
    return new MilvusStore(await MilvusConnection.open(address, load));
  }

  async create(spec: CorpusSpec): Promise<void> {
    checkCorpus(spec);
    this.#checkOpen();
    const found = await this.#corpora.find(spec.name);
    if (found === null) await this.#corpora.create(spec);
    else sameCorpus(found.spec, spec);
  }

  async corpora(): Promise<CorpusInfo[]> {
    this.#checkOpen();
    const all = await this.#corpora.all();
    const infos = await Promise.all(all.map((corpus) => this.#infoOf(corpus)));
    return infos.sort((one, other) => byText(one.name, other.name));
  }

  async corpus(name: string): Promise<CorpusInfo | null> {
    checkName(name);
    this.#checkOpen();
    const corpus = await this.#corpora.find(name);
    return corpus === null ? null : this.#infoOf(corpus);
  }

  async drop(name: string): Promise<void> {
    checkName(name);
    this.#checkOpen();
    const corpus = await this.#corpora.find(name);
    if (corpus !== null) await this.#corpora.drop(corpus);
  }

  async upsert(name: string, chunks: readonly StoredChunk[]): Promise<void> {
    const corpus = await this.#get(name);
    checkChunks(chunks, corpus.spec.dimensions);
    const latest = [...new Map(chunks.map((chunk) => [chunk.id, chunk])).values()];
    const rows = latest.map((chunk) => rowOf(name, chunk, corpus.hasBm25));
    for (const batch of batchesOf(rows)) {
      await this.#call(corpus, "store chunks", (client) =>
        client.upsert({
          collection_name: corpus.collection,
          partition_name: corpus.partition,
          // Its type wants fields by name, which are those of the schema.
          data: batch as never,
          timeout: this.#connection.address.timeoutMs,
        }),
      );
    }
  }

  async deleteDocument(
    name: string,
    documentId: string,
    keep: ReadonlySet<string> = new Set(),
  ): Promise<number> {
    const corpus = await this.#get(name);
    const own = await this.#rows(corpus, ofDocument(documentId), { fields: [], page: PAGE_ROWS });
    const ids = own.map((row) => idOf(name, row)).filter((id) => !keep.has(id));
    for (let start = 0; start < ids.length; start += KEYS_PER_REMOVAL) {
      const keys = ids
        .slice(start, start + KEYS_PER_REMOVAL)
        .map((id) => textLiteral(keyOf(name, id)));
      await this.#call(corpus, "remove a document", (client) =>
        client.delete({
          collection_name: corpus.collection,
          partition_name: corpus.partition,
          filter: `key in [${keys}]`,
        }),
      );
    }
    return ids.length;
  }

  async count(name: string, filter: Filter | null): Promise<number> {
    checkFilter(filter);
    const corpus = await this.#get(name);
    const answer = await this.#call(corpus, "count chunks", (client) =>
      client.query({
        ...this.#target(corpus),
        filter: this.#expression(filter),
        output_fields: ["count(*)"],
      }),
    );
    const count = Number(answer.data[0]?.["count(*)"] ?? 0);
    if (count === 0) await this.#corpora.afterNothing(corpus);
    return count;
  }

  async search(name: string, query: StoreQuery): Promise<Hit[]> {
    const corpus = await this.#get(name);
    checkQuery(query, corpus.spec.dimensions);
    const rows = await this.#found(corpus, query);
    if (rows.length === 0) await this.#corpora.afterNothing(corpus);
    return rows
      .map((row) => ({ id: idOf(name, row), score: scoreOf(row, query), row }))
      .sort(byRank)
      .map(({ score, row }) => ({ chunk: chunkOf(name, row), score }));
  }

  async documents(name: string): Promise<StoredDocument[]> {
    const corpus = await this.#get(name);
    const fields = ["document", "hash"];
    const rows = await this.#rows(corpus, expressionOf(null, true), { fields, page: PAGE_ROWS });
    const documents = new Map<string, StoredDocument>();
    for (const row of rows) {
      const id = String(row.document);
      const found = documents.get(id);
      const hash = String(row.hash);
      const isSame = found === undefined || found.hash === hash;
      documents.set(id, { id, hash: isSame ? hash : "", chunks: (found?.chunks ?? 0) + 1 });
    }
    return [...documents.values()].sort((one, other) => byText(one.id, other.id));
  }

  async chunksOf(name: string, documentId: string): Promise<Chunk[]> {
    const corpus = await this.#get(name);
    const page = { fields: CHUNK_FIELDS, page: PAGE_CHUNKS };
    const rows = await this.#rows(corpus, ofDocument(documentId), page);
    const chunks = rows.map((row) => chunkOf(name, row));
    return chunks.sort((one, other) => one.index - other.index || byText(one.id, other.id));
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#connection.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #checkOpen(): void {
    if (this.#isClosed) throw closedStore();
  }

  #get(name: string): Promise<MilvusCorpus> {
    checkName(name);
    this.#checkOpen();
    return this.#corpora.get(name);
  }

  #call<Answer extends object>(
    corpus: MilvusCorpus,
    action: string,
    run: (client: SdkClient) => Promise<Answer>,
  ): Promise<Answer> {
    return this.#connection.call(action, run, (thrown) =>
      this.#corpora.afterFailure(corpus, thrown),
    );
  }

  #target({ collection, partition }: MilvusCorpus) {
    return {
      collection_name: collection,
      partition_names: [partition],
      consistency_level: this.#connection.consistency,
    };
  }

  #expression(filter: Filter | null): string {
    return expressionOf(filter, this.#connection.features.hasLists);
  }

  /** Rows with scores as the server has them. */
  async #found(corpus: MilvusCorpus, query: StoreQuery): Promise<MilvusRow[]> {
    const { vector, text, limit } = query;
    const isHybrid = text !== null && vector !== null;
    const most = isHybrid ? listLength(limit) : limit;
    const words = text === null ? [] : questionWords(text);
    const parts = [
      ...(vector === null ? [] : [byVector(vector, most)]),
      ...(words.length === 0 ? [] : [await this.#byWords(corpus, words, most)]),
    ];
    const [part] = parts;
    if (part === undefined) return [];
    const expression = this.#expression(query.filter);
    const wanted = { ...this.#target(corpus), limit, output_fields: CHUNK_FIELDS };
    const answer = await this.#call(corpus, "search", async (client): Promise<SearchAnswer> => {
      if (!isHybrid) {
        return client.search({
          ...wanted,
          ...part,
          data: [part.data] as never,
          filter: expression,
        });
      }
      return client.hybridSearch({
        ...wanted,
        data: parts.map((one) => ({ ...one, expr: expression })),
        rerank: { strategy: "rrf", params: { k: RANK_OFFSET } },
      });
    });
    return answer.results;
  }

  async #byWords(corpus: MilvusCorpus, words: readonly string[], limit: number): Promise<Part> {
    const field = { anns_field: "sparse", limit, params: {} };
    if (corpus.hasBm25) {
      return { ...field, data: words.join(" "), metric_type: "BM25" };
    }
    const rareness = await this.#words.rareness(corpus, words);
    return { ...field, data: questionWeights(rareness), metric_type: "IP" };
  }

  async #infoOf(corpus: MilvusCorpus): Promise<CorpusInfo> {
    const documents = await this.documents(corpus.spec.name);
    const chunks = documents.reduce((sum, one) => sum + one.chunks, 0);
    return { ...corpus.spec, documents: documents.length, chunks };
  }

  /** All rows that an expression holds for, page after page in the order of keys. */
  async #rows(
    corpus: MilvusCorpus,
    expression: string,
    { fields, page }: { readonly fields: readonly string[]; readonly page: number },
  ): Promise<MilvusRow[]> {
    const rows: MilvusRow[] = [];
    for (let last = ""; ; ) {
      const filter = last === "" ? expression : `(${expression}) and key > ${textLiteral(last)}`;
      const answer = await this.#call(corpus, "read chunks", (client) =>
        client.query({
          ...this.#target(corpus),
          filter,
          output_fields: [...new Set(["key", ...fields])],
          limit: page,
          // Without these a server may leave out rows between the first and the last of a page.
          params: { iterator: "True", reduce_stop_for_best: "True" },
        }),
      );
      for (const row of answer.data) rows.push(row);
      const keys = answer.data.map(({ key }) => String(key)).sort(byText);
      last = keys.at(-1) ?? "";
      if (keys.length < page) break;
    }
    if (rows.length === 0) await this.#corpora.afterNothing(corpus);
    return rows;
  }
}

function byVector(vector: Float32Array, limit: number): Part {
  const ef = Math.max(EXPANSION_MIN, EXPANSION_PER_RESULT * limit);
  const data = Array.from(vector);
  return { anns_field: "vector", limit, params: { ef }, data, metric_type: "COSINE" };
}

function ofDocument(documentId: string): string {
  return `document == ${textLiteral(documentId)}`;
}

/** Weights of words come negative from Milvus Lite; a cosine may be negative in truth. */
function scoreOf(row: MilvusRow, { text }: StoreQuery): number {
  const score = Number(row.score);
  return text === null ? score : Math.abs(score);
}

function* batchesOf(rows: readonly MilvusRow[]): Generator<MilvusRow[]> {
  let batch: MilvusRow[] = [];
  let bytes = 0;
  for (const row of rows) {
    const rowBytes = Buffer.byteLength(JSON.stringify(row));
    if (batch.length > 0 && (batch.length >= BATCH_ROWS || bytes + rowBytes > BATCH_BYTES)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(row);
    bytes += rowBytes;
  }
  if (batch.length > 0) yield batch;
}
