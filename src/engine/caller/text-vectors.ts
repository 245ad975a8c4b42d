/** Texts to vectors: prompts, truncation and the engine's answers, in the order of the texts. */
import { EngineError } from "#base";
import {
  beginning,
  type EmbeddingInfo,
  type EmbedResult,
  type EmbedTextOptions,
  embedFailure,
  type ModelInfo,
  type Prompt,
  type TextCodec,
  warnOfGuess,
} from "#engine/protocol";
import { boundedMap } from "./bounded-map.ts";
import type { EngineClient } from "./engine-client.ts";
import { plainIds } from "./plain-ids.ts";
import { checkSignal } from "./request-check.ts";
import type { RequestStarter } from "./request-starter.ts";

/** Where vectors come from. */
export interface VectorScope {
  readonly client: Pick<EngineClient, "embed">;
  readonly starter: Pick<RequestStarter, "encode">;
  readonly codec: () => TextCodec | null;
  readonly info: ModelInfo;
  /** Requests that one caller starts at a time. */
  readonly atOnce: number;
  readonly warn: (message: string) => void;
}

/** Characters of a text to be cut that are encoded, at least; its limit of bytes is higher. */
const CUT_UNITS_MIN = 160 * 2 ** 10;
/** The same per token of the longest text. */
const CUT_UNITS_PER_TOKEN = 5;

/** Makes a model's vectors of texts. */
export class TextVectors {
  readonly #scope: VectorScope;

  constructor(scope: VectorScope) {
    this.#scope = scope;
  }

  /** As `LLM.embed` promises. */
  async embed(
    inputs: readonly Prompt[],
    { signal, promptName, prompt: given, truncate = false }: EmbedTextOptions,
  ): Promise<EmbedResult[]> {
    const { info, atOnce, warn } = this.#scope;
    checkSignal(signal);
    warnOfGuess(info, warn);
    const named = promptName === undefined ? "" : promptOf(info, promptName);
    const prompt = given ?? named;
    const skippedTokens = await this.#skippedOf(prompt, signal);
    const more = skippedTokens === 0 ? {} : { skippedTokens };
    return boundedMap(inputs, atOnce, async (input, place) => {
      try {
        const text = typeof input === "string" ? prompt + input : input;
        const ids = await this.#encode(text, truncate, signal);
        const promptTokenIds = plainIds(ids);
        const embedding = await this.#scope.client.embed(ids, signal, more);
        return { embedding, promptTokenIds };
      } catch (error) {
        throw embedFailure(error, place, inputs.length);
      }
    });
  }

  async #encode(
    input: Prompt,
    truncate: boolean,
    signal: AbortSignal | undefined,
  ): Promise<Int32Array<ArrayBuffer>> {
    const { starter, info, codec } = this.#scope;
    const encoder = codec();
    const { embedding } = info;
    if (!truncate || encoder === null || embedding === null) return starter.encode(input, signal);
    const { tokensMax } = embedding;
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
