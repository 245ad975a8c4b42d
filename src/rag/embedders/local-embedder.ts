import { createHash } from "node:crypto";
import { EngineError } from "#base";
import { type EmbeddingInfo, LLM, type TextCodec } from "#engine";
import type { Embedder, EmbedOptions } from "./embedder.ts";
import type { EmbedderOptions, EmbedderPrompts } from "./embedder-options.ts";
import { knownPrompts } from "./known-prompts.ts";
import { countWith } from "./token-count.ts";
import { unitVector } from "./unit-vector.ts";

const DIGITS = 32;

/** Names of prompts in a model's files: the first that is there is used. */
const QUERY_NAMES = ["query"];
const DOCUMENT_NAMES = ["document", "passage", "corpus"];

/** What an embedder of a loaded model is made of. */
interface Parts {
  readonly llm: LLM;
  readonly name: string;
  readonly codec: TextCodec;
  readonly prompts: Required<EmbedderPrompts>;
  readonly dimensions: number;
  readonly tokensMax: number;
  readonly modelFingerprint: string;
}

/** Makes vectors with a model that this process has loaded. */
export class LocalEmbedder implements Embedder {
  readonly name: string;
  readonly fingerprint: string;
  readonly dimensions: number;
  readonly tokensMax: number;
  /** What is put before queries and documents; "" where nothing is. */
  readonly prompts: Required<EmbedderPrompts>;
  readonly #llm: LLM;
  readonly #codec: TextCodec;

  private constructor({ llm, name, codec, ...parts }: Parts) {
    this.name = name;
    this.prompts = parts.prompts;
    this.dimensions = parts.dimensions;
    this.tokensMax = parts.tokensMax;
    this.#llm = llm;
    this.#codec = codec;
    const all = [parts.modelFingerprint, parts.prompts, parts.dimensions];
    const digest = createHash("sha256").update(JSON.stringify(all));
    this.fingerprint = digest.digest("hex").slice(0, DIGITS);
  }

  /**
   * Loads a model. Rejects as `LLM.load` does, with TOKENIZER_MISSING for a model that takes token
   * ids alone, UNSUPPORTED_MODEL for one that makes no vectors, and INVALID_ARGUMENT for more
   * dimensions than its vectors have.
   */
  static async open(model: string, options: EmbedderOptions & Named = {}): Promise<LocalEmbedder> {
    const llm = await LLM.load(model, options.engine);
    try {
      return await LocalEmbedder.of(llm, { name: model, ...options });
    } catch (error) {
      await llm.close();
      throw error;
    }
  }

  /** Of a loaded model, which it closes. Rejects as `open` does. */
  static async of(llm: LLM, options: EmbedderOptions & Named = {}): Promise<LocalEmbedder> {
    const { name = llm.info.name } = options;
    const { embedding } = llm.info;
    if (embedding === null) throw makesNoVectors(name);
    if (llm.codec === null) throw takesNoTexts(name);
    const dimensions = options.dimensions ?? embedding.dimensions;
    checkDimensions(dimensions, embedding.dimensions, name);
    return new LocalEmbedder({
      ...{ llm, name, codec: llm.codec, dimensions, tokensMax: embedding.tokensMax },
      prompts: promptsOf(embedding, name, options.prompts),
      modelFingerprint: await llm.embeddingFingerprint(),
    });
  }

  async countTokens(texts: readonly string[], { signal }: EmbedOptions = {}): Promise<number[]> {
    const prompted = texts.map((text) => this.prompts.document + text);
    return countWith(this.#codec, prompted, signal);
  }

  embedQueries(texts: readonly string[], options: EmbedOptions = {}): Promise<Float32Array[]> {
    return this.#embed(texts, this.prompts.query, options);
  }

  embedDocuments(texts: readonly string[], options: EmbedOptions = {}): Promise<Float32Array[]> {
    return this.#embed(texts, this.prompts.document, options);
  }

  async close(): Promise<void> {
    await this.#llm.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #embed(
    texts: readonly string[],
    prompt: string,
    { signal }: EmbedOptions,
  ): Promise<Float32Array[]> {
    const how = { prompt, truncate: true, ...(signal && { signal }) };
    const results = await this.#llm.embed(texts, how);
    return results.map(({ embedding }) => unitVector(embedding, this.dimensions));
  }
}

/** What an embedder is called where its path does not say. */
interface Named {
  /** Default: the model as it was asked for. Prompts are chosen by it. */
  readonly name?: string;
}

/** The options' prompts; else those of the model's files; else those that go with its name. */
function promptsOf(
  { prompts }: EmbeddingInfo,
  name: string,
  given: EmbedderPrompts | undefined,
): Required<EmbedderPrompts> {
  const named = (names: readonly string[]) => {
    const found = names.find((one) => Object.hasOwn(prompts, one));
    return found === undefined ? undefined : prompts[found];
  };
  const own = { query: named(QUERY_NAMES), document: named(DOCUMENT_NAMES) };
  // Newer folders list both without a word in them.
  const has = Object.values(prompts).some((text) => text !== "");
  const { query = "", document = "" } = given ?? (has ? own : (knownPrompts(name) ?? {}));
  return { query, document };
}

function checkDimensions(dimensions: number, most: number, name: string): void {
  if (Number.isInteger(dimensions) && dimensions > 0 && dimensions <= most) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot embed with ${name}: dimensions must be an integer from 1 to ${most}, the model's, ` +
      `current value is ${dimensions}`,
    { param: "dimensions" },
  );
}

function makesNoVectors(name: string): EngineError {
  return new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot embed with ${name}: a model that makes vectors of texts is wanted, this one's files ` +
      "declare modules that are not supported, or a head that scores pairs; choose an embedding " +
      "model, such as sentence-transformers/all-MiniLM-L6-v2",
    { param: "model" },
  );
}

function takesNoTexts(name: string): EngineError {
  return new EngineError(
    "TOKENIZER_MISSING",
    `Cannot embed with ${name}: its folder must have a tokenizer.json, it has none`,
    { param: "model" },
  );
}
