import type {
  EmbeddingModelV4,
  EmbeddingModelV4CallOptions,
  EmbeddingModelV4Result,
} from "@ai-sdk/provider";
import type { ChatSource } from "./chat-source.ts";

/** Texts of one request: a server takes more, but its answer would be large. */
const VALUES_MAX = 1024;

/** An embedding model of the SDK. */
export class PerigeeEmbeddingModel implements EmbeddingModelV4 {
  readonly specificationVersion = "v4";
  readonly provider = "perigee";
  readonly modelId: string;
  readonly maxEmbeddingsPerCall = VALUES_MAX;
  readonly supportsParallelCalls = true;
  readonly #source: ChatSource;

  constructor(modelId: string, source: ChatSource) {
    this.modelId = modelId;
    this.#source = source;
  }

  /** Vectors in the values' order. */
  async doEmbed(call: EmbeddingModelV4CallOptions): Promise<EmbeddingModelV4Result> {
    const { values, dimensions, abortSignal, headers } = call;
    const { embeddings, tokens } = await this.#source.embed({
      values,
      ...(dimensions === undefined ? {} : { dimensions }),
      ...(abortSignal === undefined ? {} : { signal: abortSignal }),
      ...(headers === undefined ? {} : { headers }),
    });
    return { embeddings, usage: { tokens }, warnings: [] };
  }
}
