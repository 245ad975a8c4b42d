import { createHash } from "node:crypto";
import { EngineError } from "#base";
import { TextModel } from "#engine";
import type { Embedder, EmbedOptions } from "./embedder.ts";
import type { EmbedderOptions, EmbedderPrompts } from "./embedder-options.ts";
import { knownPrompts } from "./known-prompts.ts";
import { callRemote } from "./remote-call.ts";
import { KEY_VARIABLE, type RemoteOptions, type RemoteSettings } from "./remote-options.ts";
import { answerBytesMax, DIMENSIONS_MAX, vectorsIn } from "./remote-vectors.ts";
import { countWith } from "./token-count.ts";
import { unitVector } from "./unit-vector.ts";

const DIGITS = 32;
/** Bytes of UTF-8 that a token is taken for: more tokens than most texts have. */
const TOKEN_BYTES = 3;
/** Tokens that a model may put around a text. */
const FRAME_TOKENS = 2;
/** How much of what should fit a cut keeps: tokens are not spread evenly. */
const CUT_SHARE = 0.98;

/** What an embedder behind an address is made of. */
interface Parts {
  readonly url: string;
  readonly settings: RemoteSettings;
  readonly prompts: Required<EmbedderPrompts>;
  /** Asked for, or null: all. */
  readonly wanted: number | null;
  /** Null: tokens are estimated. */
  readonly text: TextModel | null;
}

/** Makes vectors at a server with OpenAI's API (`POST /embeddings`). */
export class RemoteEmbedder implements Embedder {
  readonly name: string;
  readonly fingerprint: string;
  readonly dimensions: number;
  readonly tokensMax: number;
  /** What is put before queries and documents; "" where nothing is. */
  readonly prompts: Required<EmbedderPrompts>;
  readonly #parts: Parts;

  private constructor(name: string, parts: Parts, dimensions: number) {
    const { url, settings, prompts } = parts;
    this.name = name;
    this.dimensions = dimensions;
    this.tokensMax = settings.tokensMax;
    this.prompts = prompts;
    this.#parts = parts;
    const all = [url, settings.model, prompts, dimensions, settings.tokensMax];
    const digest = createHash("sha256").update(JSON.stringify(all)).digest("hex");
    this.fingerprint = digest.slice(0, DIGITS);
  }

  /**
   * Opens `address`, the base of the API as OpenAI's clients take it, and asks it for one vector,
   * which shows its dimensions. Rejects with INVALID_ARGUMENT, NETWORK, UNAUTHORIZED,
   * MODEL_NOT_FOUND, and TOKENIZER_MISSING for a tokenizer that is none.
   */
  static async open(
    address: string,
    options: EmbedderOptions & { readonly remote: RemoteOptions },
  ): Promise<RemoteEmbedder> {
    const settings = settingsOf(options.remote);
    const { query = "", document = "" } = options.prompts ?? knownPrompts(settings.model) ?? {};
    const url = endpointOf(address);
    const wanted = wantedDimensions(options.dimensions);
    const text = await openTokenizer(options.remote.tokenizer);
    const parts = { url, settings, prompts: { query, document }, wanted, text };
    try {
      const [probe] = await request(parts, ["a"], wanted, undefined);
      return new RemoteEmbedder(address, parts, probe?.length ?? 0);
    } catch (error) {
      await text?.close();
      throw error;
    }
  }

  async countTokens(texts: readonly string[], { signal }: EmbedOptions = {}): Promise<number[]> {
    return this.#count(
      texts.map((text) => this.prompts.document + text),
      signal,
    );
  }

  embedQueries(texts: readonly string[], options: EmbedOptions = {}): Promise<Float32Array[]> {
    return this.#embed(texts, this.prompts.query, options);
  }

  embedDocuments(texts: readonly string[], options: EmbedOptions = {}): Promise<Float32Array[]> {
    return this.#embed(texts, this.prompts.document, options);
  }

  async close(): Promise<void> {
    await this.#parts.text?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #embed(
    texts: readonly string[],
    prompt: string,
    { signal }: EmbedOptions,
  ): Promise<Float32Array[]> {
    signal?.throwIfAborted();
    const whole = await this.#cut(
      texts.map((text) => prompt + text),
      signal,
    );
    // One failure ends the other requests.
    const stop = new AbortController();
    const both = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
    const batches = batchesOf(whole, this.#parts.settings);
    const vectors: Float32Array[][] = [];
    const entries = batches.entries();
    const lane = async () => {
      for (const [place, batch] of entries) {
        vectors[place] = await request(this.#parts, batch, this.dimensions, both);
      }
    };
    const lanes = Math.min(this.#parts.settings.requestsAtOnce, batches.length);
    try {
      await Promise.all(Array.from({ length: lanes }, lane));
    } catch (error) {
      stop.abort(error);
      throw error;
    }
    return vectors.flat().map((vector) => unitVector(vector));
  }

  /** Texts that fit, as far as tokens are known. */
  async #cut(texts: readonly string[], signal: AbortSignal | undefined): Promise<string[]> {
    const cut = [...texts];
    const counts = await this.#count(cut, signal);
    for (const [place, count] of counts.entries()) {
      let tokens = count;
      while (tokens > this.tokensMax && cut[place] !== "") {
        cut[place] = shortened(cut[place] ?? "", this.tokensMax / tokens);
        [tokens = 0] = await this.#count([cut[place] ?? ""], signal);
      }
    }
    return cut;
  }

  async #count(texts: readonly string[], signal: AbortSignal | undefined): Promise<number[]> {
    signal?.throwIfAborted();
    const codec = this.#parts.text?.codec ?? null;
    if (codec !== null) return countWith(codec, texts, signal);
    return texts.map((text) => FRAME_TOKENS + Math.ceil(Buffer.byteLength(text) / TOKEN_BYTES));
  }
}

/** One request for the vectors of some texts. */
async function request(
  { url, settings, wanted }: Parts,
  input: readonly string[],
  dimensions: number | null,
  signal: AbortSignal | undefined,
): Promise<Float32Array[]> {
  const { model, apiKey, deadlineMs, attemptsMax, retryMs } = settings;
  const expected = { url, count: input.length, dimensions };
  const answer = await callRemote({
    ...{ url, apiKey, deadlineMs, attemptsMax, retryMs, signal },
    body: {
      model,
      input,
      encoding_format: "float",
      ...(wanted !== null && { dimensions: wanted }),
    },
    answerBytesMax: answerBytesMax(expected),
  });
  return vectorsIn(answer, expected);
}

/** Texts, in order, in requests of at most so many texts and bytes. */
function batchesOf(
  texts: readonly string[],
  { batchTexts, batchBytes }: RemoteSettings,
): string[][] {
  const batches: string[][] = [];
  let bytes = 0;
  for (const text of texts) {
    const last = batches.at(-1);
    bytes += Buffer.byteLength(text);
    if (last === undefined || last.length >= batchTexts || bytes > batchBytes) {
      batches.push([text]);
      bytes = Buffer.byteLength(text);
    } else last.push(text);
  }
  return batches;
}

/** A beginning of the text, shorter than it, that splits no character. */
function shortened(text: string, share: number): string {
  const end = Math.min(text.length - 1, Math.floor(text.length * share * CUT_SHARE));
  const cut = text.slice(0, Math.max(0, end));
  return /[\ud800-\udbff]$/.test(cut) ? cut.slice(0, -1) : cut;
}

/** Throws INVALID_ARGUMENT for an address that is none, or that has a password in it. */
function endpointOf(address: string): string {
  const url = URL.canParse(address) ? new URL(address) : null;
  const isWeb = url?.protocol === "http:" || url?.protocol === "https:";
  if (url === null || !isWeb || url.username !== "" || url.password !== "" || url.hash !== "") {
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot open an embedder: its address must be like https://host/v1, without a user or a " +
        "password, current value is another; give the key as an option or in the environment",
      { param: "address" },
    );
  }
  const path = url.pathname.replace(/\/+$/, "");
  url.pathname = path.endsWith("/embeddings") ? path : `${path}/embeddings`;
  return url.href;
}

function settingsOf(options: RemoteOptions): RemoteSettings {
  const { model, apiKeyVariable = KEY_VARIABLE } = options;
  const apiKey = options.apiKey ?? process.env[apiKeyVariable] ?? null;
  const settings = {
    model,
    apiKeyVariable,
    apiKey: apiKey === "" ? null : apiKey,
    tokensMax: options.tokensMax ?? 512,
    batchTexts: options.batchTexts ?? 32,
    batchBytes: options.batchBytes ?? 256 * 2 ** 10,
    requestsAtOnce: options.requestsAtOnce ?? 4,
    deadlineMs: options.deadlineMs ?? 60_000,
    attemptsMax: options.attemptsMax ?? 5,
    retryMs: options.retryMs ?? 500,
  };
  for (const [name, least, value] of [
    ["tokensMax", FRAME_TOKENS + 1, settings.tokensMax],
    ["batchTexts", 1, settings.batchTexts],
    ["batchBytes", 1, settings.batchBytes],
    ["requestsAtOnce", 1, settings.requestsAtOnce],
    ["deadlineMs", 1, settings.deadlineMs],
    ["attemptsMax", 1, settings.attemptsMax],
    ["retryMs", 0, settings.retryMs],
  ] as const) {
    if (!Number.isSafeInteger(value) || value < least) throw wrongOption(name, least, value);
  }
  return settings;
}

function wantedDimensions(given: number | undefined): number | null {
  if (given === undefined) return null;
  if (Number.isInteger(given) && given >= 1 && given <= DIMENSIONS_MAX) return given;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot open an embedder: dimensions must be an integer from 1 to ${DIMENSIONS_MAX}, current ` +
      `value is ${given}`,
    { param: "dimensions" },
  );
}

async function openTokenizer(model: string | undefined): Promise<TextModel | null> {
  if (model === undefined) return null;
  const text = await TextModel.open(model, { onWarning: () => {} });
  if (text.codec !== null) return text;
  await text.close();
  throw new EngineError(
    "TOKENIZER_MISSING",
    `Cannot open an embedder: ${model} must have a tokenizer.json, it has none`,
    { param: "tokenizer" },
  );
}

function wrongOption(name: string, least: number, value: number): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot open an embedder: ${name} must be an integer of at least ${least}, current value is ` +
      `${value}`,
    { param: name },
  );
}
