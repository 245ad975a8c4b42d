/**
 * Corpora of a Milvus server: a partition each, in the collection of their embedder and dimensions.
 * A row in the collection's default partition says which embedder that is; searches never see it.
 */
import { EngineError } from "#base";
import { unknownCorpus } from "./corpus-errors.ts";
import type { MilvusConnection } from "./milvus-client.ts";
import { isMissing } from "./milvus-errors.ts";
import { readAttributes, storedAttributes, textLiteral } from "./milvus-filter.ts";
import {
  COLLECTION_PREFIX,
  type CollectionSpec,
  checkCollection,
  collectionOf,
  ensureCollection,
  hasOurForm,
} from "./milvus-schema.ts";
import type { CorpusSpec } from "./vector-store.ts";

/** Where a corpus is. */
export interface MilvusCorpus {
  readonly spec: CorpusSpec;
  readonly collection: string;
  readonly partition: string;
  /** The server weighs its words. */
  readonly hasBm25: boolean;
}

const DEFAULT_PARTITION = "_default";
const PARTITION_PREFIX = "corpus_";
/** The key of the row that says of which embedder a collection is; no corpus has an empty name. */
const FACTS_KEY = "/perigee";
const FORMAT = 1;

export class MilvusCorpora {
  readonly #connection: MilvusConnection;
  /** By name of the corpus, as they were found; another process may have removed them since. */
  readonly #known = new Map<string, MilvusCorpus>();
  /** By name of the collection; its embedder never changes. */
  readonly #collections = new Map<string, CollectionSpec>();

  constructor(connection: MilvusConnection) {
    this.#connection = connection;
  }

  /** Throws CORPUS_INVALID where there is none of this name. */
  async get(name: string): Promise<MilvusCorpus> {
    const corpus = this.#known.get(name) ?? (await this.find(name));
    if (corpus === null) throw unknownCorpus(name);
    return corpus;
  }

  /** Asks the server; null: there is none of this name. */
  async find(name: string): Promise<MilvusCorpus | null> {
    this.#known.delete(name);
    for (const [collection, spec] of await this.#all()) {
      const corpus = corpusIn(collection, spec, name);
      if (!(await this.exists(corpus))) continue;
      this.#known.set(name, corpus);
      return corpus;
    }
    return null;
  }

  async exists({ collection, partition }: MilvusCorpus): Promise<boolean> {
    const has = await this.#connection.call("look for a corpus", async (client) => {
      const target = { collection_name: collection, partition_name: partition };
      const answer = await client.hasPartition(target);
      // Without its collection there is no partition either.
      const isGone = isMissing(answer.status);
      return isGone ? { value: false, status: { ...answer.status, code: 0 } } : answer;
    });
    return Boolean(has.value);
  }

  async create(spec: CorpusSpec): Promise<void> {
    const collection = collectionOf(spec);
    const own = await this.#factsOf(collection);
    const hasBm25 = own?.hasBm25 ?? this.#connection.features.hasBm25;
    const collectionSpec = { ...spec, hasBm25 };
    await ensureCollection(this.#connection, collectionSpec);
    if (own === null) await this.#writeFacts(collection, collectionSpec);
    const corpus = corpusIn(collection, collectionSpec, spec.name);
    const target = { collection_name: collection, partition_name: corpus.partition };
    await this.#connection.call("make a corpus", async (client) => {
      const answer = await client.createPartition(target);
      // Another process may have made it meanwhile.
      return answer.code !== 0 && (await this.exists(corpus)) ? { code: 0 } : answer;
    });
    this.#known.set(spec.name, corpus);
  }

  async drop(corpus: MilvusCorpus): Promise<void> {
    const { collection, partition } = corpus;
    this.#known.delete(corpus.spec.name);
    await this.#connection.call("remove a corpus", async (client) => {
      // One in use is not removed; servers that do not know this call remove it all the same.
      await client.releasePartitions({ collection_name: collection, partition_names: [partition] });
      return client.dropPartition({ collection_name: collection, partition_name: partition });
    });
  }

  /** All corpora, in no order. */
  async all(): Promise<MilvusCorpus[]> {
    const corpora: MilvusCorpus[] = [];
    for (const [collection, spec] of await this.#all()) {
      const shown = await this.#connection.call("list corpora", (client) =>
        client.showPartitions({ collection_name: collection }),
      );
      for (const partition of shown.partition_names) {
        const name = nameOf(partition);
        if (name !== null) corpora.push(corpusIn(collection, spec, name));
      }
    }
    return corpora;
  }

  /** What is told about a failed call of a corpus: that it is gone, where it is. */
  async afterFailure(corpus: MilvusCorpus, thrown: unknown): Promise<void> {
    this.#known.delete(corpus.spec.name);
    // The client fails in ways of its own where it finds no collection.
    const isSuspect = isMissing(thrown) || thrown instanceof TypeError;
    if (isSuspect && !(await this.exists(corpus))) throw unknownCorpus(corpus.spec.name);
  }

  /** Servers answer with nothing where a partition is gone: that is told, too. */
  async afterNothing(corpus: MilvusCorpus): Promise<void> {
    if (await this.exists(corpus)) return;
    this.#known.delete(corpus.spec.name);
    throw unknownCorpus(corpus.spec.name);
  }

  /** Collections of ours, and of which embedder they are. */
  async #all(): Promise<[string, CollectionSpec][]> {
    const listed = await this.#connection.call("list corpora", (client) =>
      client.listCollections(),
    );
    const found: [string, CollectionSpec][] = [];
    for (const { name } of listed.data) {
      if (!name.startsWith(COLLECTION_PREFIX)) continue;
      const spec = this.#collections.get(name) ?? (await this.#opened(name));
      if (spec === null) continue;
      this.#collections.set(name, spec);
      found.push([name, spec]);
    }
    return found;
  }

  /** Null: it was not made to the end, or is of something else. */
  async #opened(collection: string): Promise<CollectionSpec | null> {
    const spec = await this.#factsOf(collection);
    if (spec === null || collectionOf(spec) !== collection) return null;
    try {
      await checkCollection(this.#connection, collection, spec);
    } catch (error) {
      // It hides no other corpus; making one in it tells what is wrong.
      if (error instanceof EngineError && error.code === "CORPUS_INVALID") return null;
      throw error;
    }
    await this.#connection.load(collection);
    return spec;
  }

  /** Null: the collection is not there, was not made to the end, or is of something else. */
  async #factsOf(collection: string): Promise<CollectionSpec | null> {
    if (!(await hasOurForm(this.#connection, collection))) return null;
    await this.#connection.load(collection);
    const answer = await this.#connection.call("open a collection", (client) =>
      client.query({
        collection_name: collection,
        partition_names: [DEFAULT_PARTITION],
        filter: `key == ${textLiteral(FACTS_KEY)}`,
        output_fields: ["attributes"],
        limit: 1,
      }),
    );
    const [row] = answer.data;
    if (row === undefined) return null;
    const { embedder, dimensions, format, bm25 } = readAttributes(row.attributes);
    if (format !== FORMAT || typeof dimensions !== "number") return null;
    return { embedder: String(embedder), dimensions, hasBm25: bm25 === true };
  }

  async #writeFacts(collection: string, spec: CollectionSpec): Promise<void> {
    const { embedder, dimensions, hasBm25 } = spec;
    const vector = Array.from({ length: dimensions }, (_, place) => Number(place === 0));
    const row = {
      key: FACTS_KEY,
      document: "",
      hash: "",
      place: 0,
      text: "",
      words: "",
      about: {},
      attributes: storedAttributes({ embedder, dimensions, format: FORMAT, bm25: hasBm25 }),
      vector,
      ...(hasBm25 ? {} : { sparse: { 0: 1 } }),
    };
    await this.#connection.call("make a collection", (client) =>
      client.upsert({
        collection_name: collection,
        partition_name: DEFAULT_PARTITION,
        data: [row],
        timeout: this.#connection.address.timeoutMs,
      }),
    );
  }
}

function corpusIn(collection: string, spec: CollectionSpec, name: string): MilvusCorpus {
  // Names of partitions have no dashes.
  const partition = `${PARTITION_PREFIX}${name.replaceAll("_", "_u").replaceAll("-", "_d")}`;
  const { dimensions, embedder, hasBm25 } = spec;
  return { spec: { name, dimensions, embedder }, collection, partition, hasBm25 };
}

/** Null: it is not of ours. */
function nameOf(partition: string): string | null {
  if (!partition.startsWith(PARTITION_PREFIX)) return null;
  const name = partition.slice(PARTITION_PREFIX.length);
  return name.replaceAll("_d", "-").replaceAll("_u", "_");
}
