import { EngineError } from "#base";
import { LLM, type LlmOptions } from "#engine";
import type { EmbedOptions } from "./embedder.ts";
import type { Reranker } from "./reranker.ts";

/** Scores pairs with a cross-encoder that this process has loaded. */
export class LocalReranker implements Reranker {
  readonly name: string;
  readonly #llm: LLM;

  private constructor(llm: LLM, name: string) {
    this.#llm = llm;
    this.name = name;
  }

  /**
   * Opens a cross-encoder: a folder in Hugging Face's layout, the id of a model that `perigee
   * models pull` has downloaded, or the name of one that comes with this package. Rejects as
   * `LLM.load` does, and with UNSUPPORTED_MODEL for a model that is none.
   */
  static async open(model: string, engine: LlmOptions = {}): Promise<LocalReranker> {
    const llm = await LLM.load(model, engine);
    try {
      return LocalReranker.of(llm, model);
    } catch (error) {
      await llm.close();
      throw error;
    }
  }

  /** Of a loaded model, which it closes. Throws UNSUPPORTED_MODEL where that is none. */
  static of(llm: LLM, name: string = llm.info.name): LocalReranker {
    if (llm.info.pairScoring === null) throw noReranker(name);
    return new LocalReranker(llm, name);
  }

  /** Where the model's own scores are any numbers, their sigmoid: the order stays. */
  async score(
    query: string,
    texts: readonly string[],
    options: EmbedOptions = {},
  ): Promise<number[]> {
    const isLogit = this.#llm.info.pairScoring?.activation === "none";
    const results = await this.#llm.score(query, texts, options);
    return results.map(({ score }) => (isLogit ? 1 / (1 + Math.exp(-score)) : score));
  }

  async close(): Promise<void> {
    await this.#llm.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function noReranker(name: string): EngineError {
  return new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot rerank with ${name}: a cross-encoder is wanted, whose config.json has one label and ` +
      "an architecture that ends in ForSequenceClassification, this model has none; choose one " +
      "such as cross-encoder/ms-marco-MiniLM-L6-v2",
    { param: "model" },
  );
}
