/** How rare words are in a corpus of a server that cannot weigh them: counted, and kept a while. */
import type { MilvusConnection } from "./milvus-client.ts";
import type { MilvusCorpus } from "./milvus-corpora.ts";
import { textLiteral } from "./milvus-filter.ts";

const KEPT_MS = 60_000;
const KEPT_WORDS_MAX = 50_000;
/** The floor of SQLite's BM25, for words of more than half of the chunks. */
const RARENESS_MIN = 1e-6;

interface Counted {
  readonly atMs: number;
  readonly chunks: number;
}

export class MilvusWords {
  readonly #connection: MilvusConnection;
  readonly #counts = new Map<string, Counted>();

  constructor(connection: MilvusConnection) {
    this.#connection = connection;
  }

  /** The weight of each word, as BM25 has it. */
  async rareness(corpus: MilvusCorpus, words: readonly string[]): Promise<Map<string, number>> {
    const all = await this.#count(corpus, 'key != ""');
    const weights = words.map(async (word) => {
      const having = await this.#count(corpus, `words like ${textLiteral(`% ${word} %`)}`);
      const rareness = Math.log((all - having + 0.5) / (having + 0.5));
      return [word, Math.max(RARENESS_MIN, rareness)] as const;
    });
    return new Map(await Promise.all(weights));
  }

  async #count({ collection, partition }: MilvusCorpus, filter: string): Promise<number> {
    const name = `${collection}/${partition}/${filter}`;
    const kept = this.#counts.get(name);
    if (kept !== undefined && Date.now() - kept.atMs < KEPT_MS) return kept.chunks;
    const answer = await this.#connection.call("search", (client) =>
      client.query({
        collection_name: collection,
        partition_names: [partition],
        filter,
        output_fields: ["count(*)"],
      }),
    );
    const chunks = Number(answer.data[0]?.["count(*)"] ?? 0);
    if (this.#counts.size >= KEPT_WORDS_MAX) this.#counts.clear();
    this.#counts.set(name, { atMs: Date.now(), chunks });
    return chunks;
  }
}
