/** Texts to vectors: prompts, truncation and the engine's answers, in the order of the texts. */
import { EngineError, requireOptions } from "#base";
import {
  beginning,
  type EmbeddingInfo,
  type EmbedResult,
  type EmbedTextOptions,
  embedFailure,
  type ModelInfo,
  type PairScoringInfo,
  type Prompt,
  type ScoreOptions,
  type ScoreResult,
  type TextCodec,
  warnOfGuess,
} from "#engine/protocol";
import type { PairFrame } from "#tokenizer";
import { boundedMap } from "./bounded-map.ts";
import type { EngineClient } from "./engine-client.ts";
import { pairIds } from "./pair-ids.ts";
import { plainIds } from "./plain-ids.ts";
import { checkSignal, wrongKind } from "./request-check.ts";
import type { RequestStarter } from "./request-starter.ts";

/** Where vectors come from. */
export interface VectorScope {
  readonly client: Pick<EngineClient, "embed">;
  readonly starter: Pick<RequestStarter, "encode">;
  readonly codec: () => TextCodec | null;
  /** Throws TOKENIZER_MISSING and TOKENIZER_INVALID. */
  readonly pairFrame: () => PairFrame;
  readonly info: ModelInfo;
  /** Requests that one caller starts at a time. */
  readonly atOnce: number;
  readonly warn: (message: string) => void;
}

/** Characters of a text to be cut that are encoded, at least; its limit of bytes is higher. */
const CUT_UNITS_MIN = 160 * 2 ** 10;
/** The same per token of the longest text. */
const CUT_UNITS_PER_TOKEN = 5;

/**
 * Parts of a list under way: one is encoded while the engine has another. A part's texts reach the
 * engine together, so that its steps are full; one by one they would come as fast as a thread
 * encodes, and an encoder on a GPU would compute one or two at a time.
 */
const WINDOWS = 3;

/** Makes a model's vectors of texts. */
export class TextVectors {
  readonly #scope: VectorScope;

  constructor(scope: VectorScope) {
    this.#scope = scope;
  }

  /** As `LLM.embed` promises. */
  async embed(inputs: readonly Prompt[], options: EmbedTextOptions): Promise<EmbedResult[]> {
    requireOptions(options);
    const { signal, promptName, prompt: given, truncate = false } = options;
    const { info, atOnce, warn } = this.#scope;
    checkSignal(signal);
    if (!Array.isArray(inputs)) throw wrongKind("inputs", "a text or a list of texts", inputs);
    if (info.pairScoring !== null) throw scoresAlone(info);
    warnOfGuess(info, warn);
    const own = promptName === undefined ? "" : promptOf(info, promptName);
    const prompt = given ?? own;
    const skippedTokens = await this.#skippedOf(prompt, signal);
    const more = skippedTokens === 0 ? {} : { skippedTokens };
    /** Rejects as the input at `place` does. */
    const named = <T>(place: number, work: Promise<T>): Promise<T> =>
      work.catch((error: unknown) => {
        throw embedFailure(error, place, inputs.length);
      });
    const size = Math.max(1, Math.floor(atOnce / WINDOWS));
    const results = await boundedMap(startsOf(inputs, size), WINDOWS, async (start) => {
      const some = inputs.slice(start, start + size);
      const encoded = some.map((input, i) => {
        const text = typeof input === "string" ? prompt + input : input;
        return named(start + i, this.#encode(text, truncate, signal));
      });
      const vectors = (await Promise.all(encoded)).map(async (ids, i) => {
        const promptTokenIds = plainIds(ids);
        const how = typeof some[i] === "string" ? more : {};
        const embedding = await named(start + i, this.#scope.client.embed(ids, signal, how));
        return { embedding, promptTokenIds };
      });
      return Promise.all(vectors);
    });
    return results.flat();
  }

  /** As `LLM.score` promises. */
  async score(
    queries: string | readonly string[],
    texts: readonly string[],
    options: ScoreOptions,
  ): Promise<ScoreResult[]> {
    requireOptions(options);
    const { info, codec } = this.#scope;
    const pairs = pairsOf(queries, texts);
    checkSignal(options.signal);
    const encoder = codec();
    if (encoder === null) throw needsTokenizer(info);
    return info.pairScoring === null
      ? this.#cosines(pairs, options)
      : this.#crossed(pairs, { ...options, encoder, scoring: info.pairScoring });
  }

  /** Scores of a cross-encoder. */
  async #crossed(
    { queries, texts }: Pairs,
    { signal, encoder, scoring, tokensMax = scoring.tokensMax, raw = false }: Crossing,
  ): Promise<ScoreResult[]> {
    const { client, pairFrame, atOnce } = this.#scope;
    const frame = pairFrame();
    const most = Math.min(tokensMax, scoring.tokensMax);
    const how = { addSpecialTokens: false, ...(signal && { signal }) };
    const whole = [...queries, ...texts].map((text) => cutUnits(text, most));
    const lists = await encoder.encodeAll(whole, how);
    const seconds = lists.slice(queries.length);
    return boundedMap(seconds, atOnce, async (second, place) => {
      const first = lists[queries.length === 1 ? 0 : place] ?? [];
      const pair = pairIds(first, second, { frame, tokensMax: most });
      if (pair === null) throw noRoom(most, frame);
      const { ids, ...types } = pair;
      const { length: tokens } = ids;
      const [output = Number.NaN] = await client.embed(ids, signal, types);
      const score = scoring.activation === "sigmoid" && !raw ? sigmoid(output) : output;
      return { score, tokens };
    });
  }

  /** Cosines of vectors, for a model that embeds. */
  async #cosines(
    { queries, texts }: Pairs,
    { signal, tokensMax }: ScoreOptions,
  ): Promise<ScoreResult[]> {
    const how = { truncate: tokensMax ?? true, ...(signal && { signal }) };
    const vectors = await this.embed([...queries, ...texts], how);
    return texts.map((_, place) => {
      const query = vectors[queries.length === 1 ? 0 : place];
      const text = vectors[queries.length + place];
      const isFirst = queries.length > 1 || place === 0;
      const tokens = isFirst ? (query?.promptTokenIds.length ?? 0) : 0;
      return {
        score: cosine(query?.embedding ?? [], text?.embedding ?? []),
        tokens: tokens + (text?.promptTokenIds.length ?? 0),
      };
    });
  }

  async #encode(
    input: Prompt,
    truncate: boolean | number,
    signal: AbortSignal | undefined,
  ): Promise<Int32Array<ArrayBuffer>> {
    const { starter, info, codec } = this.#scope;
    const encoder = codec();
    const { embedding } = info;
    if (truncate === false || encoder === null || embedding === null) {
      return starter.encode(input, signal);
    }
    const most = embedding.tokensMax;
    const tokensMax = truncate === true ? most : Math.min(truncate, most);
    const ids =
      typeof input === "string"
        ? await encoder.encode(cutUnits(input, tokensMax), { ...(signal && { signal }) })
        : [...input.promptTokenIds];
    const promptTokenIds = beginning(ids, tokensMax, encoder.frame) ?? ids.slice(0, tokensMax);
    return starter.encode({ promptTokenIds }, signal);
  }

  /** Leading tokens of every text that are not pooled: those of a prompt, framed at its start. */
  async #skippedOf(prompt: string, signal: AbortSignal | undefined): Promise<number> {
    const encoder = this.#scope.codec();
    const { embedding } = this.#scope.info;
    if (prompt === "" || encoder === null || embedding?.promptPooled !== false) return 0;
    const ids = await encoder.encode(prompt, { ...(signal && { signal }) });
    return ids.length - encoder.frame.after.length;
  }
}

interface Pairs {
  /** One, or as many as texts. */
  readonly queries: readonly string[];
  readonly texts: readonly string[];
}

interface Crossing extends ScoreOptions {
  readonly encoder: TextCodec;
  readonly scoring: PairScoringInfo;
}

/** Throws INVALID_ARGUMENT. */
function pairsOf(queries: string | readonly string[], texts: readonly string[]): Pairs {
  if (!Array.isArray(texts)) throw wrongKind("texts", "a list of texts", texts);
  const list = typeof queries === "string" ? [queries] : queries;
  if (!Array.isArray(list)) throw wrongKind("queries", "a text or a list of texts", list);
  if (list.length === 1 || list.length === texts.length) return { queries: list, texts };
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot score texts: there must be one query, or as many as the ${texts.length} texts, ` +
      `current value is ${list.length}`,
    { param: "queries" },
  );
}

/** Where each part of `size` items begins. */
function startsOf(list: readonly unknown[], size: number): number[] {
  return Array.from({ length: Math.ceil(list.length / size) }, (_, part) => part * size);
}

function cosine(one: ArrayLike<number>, other: ArrayLike<number>): number {
  let [dot, ones, others] = [0, 0, 0];
  for (let i = 0; i < one.length; i++) {
    const [a, b] = [one[i] ?? 0, other[i] ?? 0];
    dot += a * b;
    ones += a * a;
    others += b * b;
  }
  return ones > 0 && others > 0 ? dot / Math.sqrt(ones * others) : 0;
}

function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}

function scoresAlone({ name }: ModelInfo): EngineError {
  return new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot embed with ${name}: it is a cross-encoder, which scores pairs of texts and makes no ` +
      "vectors; use it with LLM.score, POST /v1/score or POST /v1/rerank",
    { param: "model" },
  );
}

function needsTokenizer({ name }: ModelInfo): EngineError {
  return new EngineError(
    "TOKENIZER_MISSING",
    `Cannot score texts: ${name} has no tokenizer, and pairs are texts; put its tokenizer.json ` +
      "beside it",
  );
}

function noRoom(tokensMax: number, { before, between, after }: PairFrame): EngineError {
  const special = before.length + between.length + after.length;
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot score texts: tokensMax must be at least ${special}, the special tokens around a ` +
      `pair, current value is ${tokensMax}`,
    { param: "tokensMax" },
  );
}

/** More of a text than its longest beginning has tokens for, and less than is refused. */
function cutUnits(text: string, tokensMax: number): string {
  return text.slice(0, Math.max(CUT_UNITS_MIN, tokensMax * CUT_UNITS_PER_TOKEN));
}

/** Throws INVALID_ARGUMENT, which lists the names there are. */
function promptOf({ name, embedding }: ModelInfo, promptName: string): string {
  const prompts: EmbeddingInfo["prompts"] = embedding?.prompts ?? {};
  const prompt = Object.hasOwn(prompts, promptName) ? prompts[promptName] : undefined;
  if (prompt !== undefined) return prompt;
  const names = Object.keys(prompts).map((known) => JSON.stringify(known));
  const known = names.length > 0 ? `must be one of ${names.join(", ")}` : "must be left out";
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot embed with a prompt: promptName ${known}, which are the prompts of ${name}, ` +
      `current value is ${JSON.stringify(promptName)}`,
    { param: "promptName" },
  );
}
