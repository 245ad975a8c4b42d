import { type Clock, EngineError, requireOptions, type Timer } from "#base";
import type { Checkpoint } from "#checkpoint";
import type { ChatMessage, ChatOptions, TextCodec } from "#engine/protocol";
import type { ThinkingMarks } from "#sampling";
import {
  badWordTokens,
  ChatTemplate,
  missingTemplate,
  pickTemplate,
  type TemplateSource,
  type TextLimits,
  TextPool,
  Tokenizer,
  tooManyBytes,
} from "#tokenizer";
import { checkedMessages } from "./message-check.ts";
import { ModelCodec } from "./model-codec.ts";
import { plainIds } from "./plain-ids.ts";

/** Begin and end of a reasoning model's thoughts, in the families that have them as tokens. */
const THINKING_MARKS = [
  ["<think>", "</think>"],
  ["[THINK]", "[/THINK]"],
  ["<seed:think>", "</seed:think>"],
] as const;

/** Up to this many bad words, of this length together, are encoded on the calling thread. */
const INLINE_WORDS_MAX = 16;
const INLINE_WORD_UNITS_MAX = 256;
/** A bad word costs about as much as a text of this many times its length. */
const WORD_COST = 8;

/** What each value in a conversation counts beside its text. */
const VALUE_UNITS = 16;

/** Default limit of a prompt's bytes: at least this much, and more by the context's tokens. */
const PROMPT_BYTES = 512 * 2 ** 10;
const TOKEN_BYTES = 16;

export interface ModelTextOptions extends TextLimits {
  readonly name: string;
  /** The text of a chat template instead of the model's own. */
  readonly template: string | null;
  /** Longest text of a prompt; null: by the model's context. */
  readonly promptBytesMax: number | null;
  readonly clock: Clock;
  readonly timer: Timer;
  /** Receives warnings. */
  readonly warn: (message: string) => void;
}

/**
 * The text side of one model: its tokenizer and chat template, where it has them. Templates are
 * rendered, and all but short texts encoded, by threads that can be stopped; they start when they
 * are needed.
 */
export class ModelText {
  readonly tokenizer: Tokenizer | null;
  readonly hasTemplate: boolean;
  /** The text of the template for conversations with tools; null: there is none. */
  readonly toolTemplate: string | null;
  readonly #options: ModelTextOptions;
  readonly #pool: TextPool | null;
  readonly #codec: ModelCodec | null;
  #contextTokens: number | null = null;
  /** Models that use it. */
  #users = 1;

  /** Throws TOKENIZER_INVALID, and INVALID_ARGUMENT for another template than the model's. */
  constructor(files: Checkpoint["tokenizer"], options: ModelTextOptions) {
    this.#options = options;
    const { template: other } = options;
    const own = files?.chatTemplate ?? null;
    const text = other ?? own;
    const template: TemplateSource | null =
      text === null ? null : { text, from: other === null ? "model" : "request" };
    this.hasTemplate = template !== null;
    const toolTemplate = other === null ? toolTemplateOf(files) : null;
    this.toolTemplate = toolTemplate?.text ?? text;
    // Parsed here only to find errors; templates never run on this thread.
    for (const source of [template, toolTemplate]) {
      if (source !== null) new ChatTemplate(source.text, { source: source.from });
    }
    if (files === null) {
      this.tokenizer = null;
      this.#codec = null;
      this.#pool = null;
      return;
    }
    const { tokenizerJson, tokenizerConfig } = files;
    this.tokenizer = new Tokenizer(files);
    this.#pool = new TextPool(
      { files: { tokenizerJson, tokenizerConfig }, template, toolTemplate },
      options,
    );
    this.#codec = new ModelCodec(this.tokenizer, this.#pool, () => this.#promptBytesMax());
  }

  /** The tokenizer for callers that must not block. */
  get codec(): TextCodec | null {
    return this.#codec;
  }

  /** Sets the context length: prompts that cannot fit it are refused before they are encoded. */
  useContext(tokens: number): void {
    this.#contextTokens = tokens;
  }

  /** Prepares in advance what the first text would otherwise wait for. */
  warmUp(): void {
    this.#pool?.warmUp();
  }

  /** The tokenizer, for an action that requires one. Throws TOKENIZER_MISSING. */
  require(action: string): Tokenizer {
    if (this.tokenizer !== null) return this.tokenizer;
    throw new EngineError(
      "TOKENIZER_MISSING",
      `Cannot ${action}: ${this.#options.name} has no tokenizer (give token ids instead of text)`,
    );
  }

  /** Throws TOKENIZER_MISSING, and PROMPT_TOO_LONG for a text that cannot fit the context. */
  async encode(
    text: string,
    signal?: AbortSignal,
    cacheSalt: string | null = null,
  ): Promise<ArrayLike<number>> {
    this.require("encode text");
    const tokensMax = this.#contextTokens;
    const options = { tokensMax, cacheSalt, ...(signal === undefined ? {} : { signal }) };
    return (await this.#codec?.encodeIds(text, options)) ?? [];
  }

  /** Token sequences that spell the words. Throws INVALID_ARGUMENT for a word without tokens. */
  async badWords(
    words: readonly string[],
    signal?: AbortSignal,
  ): Promise<readonly (readonly number[])[]> {
    if (words.length === 0) return [];
    const tokenizer = this.require("forbid words");
    const size = words.reduce((sum, word) => sum + word.length, 0);
    const isSmall = words.length <= INLINE_WORDS_MAX && size <= INLINE_WORD_UNITS_MAX;
    const isQuick = isSmall && tokenizer.encodesQuickly;
    if (isQuick || this.#pool === null) return badWordTokens(tokenizer, words);
    return this.#pool.run({ kind: "badWords", words }, { size: size * WORD_COST, signal });
  }

  /** The tokens between which the model thinks. Throws INVALID_ARGUMENT where it has none. */
  thinkingMarks(): ThinkingMarks {
    const tokenizer = this.require("limit the model's thinking");
    for (const [start, end] of THINKING_MARKS) {
      const startId = tokenizer.tokenId(start);
      const endId = tokenizer.tokenId(end);
      if (startId !== null && endId !== null) {
        return { startTokenIds: [startId], endTokenIds: [endId] };
      }
    }
    const known = THINKING_MARKS.map((pair) => pair.join("…")).join(", ");
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot limit the model's thinking: its tokens must include one of ${known}, ` +
        `those of ${this.#options.name} do not; leave thinkingTokenBudget out`,
      { param: "thinkingTokenBudget" },
    );
  }

  /** One more model uses it: it lives until each of them has disposed of it. */
  share(): this {
    this.#users++;
    return this;
  }

  /** Stops the text threads, unless another model uses them. To be called once by each. */
  async dispose(): Promise<void> {
    this.#users--;
    if (this.#users <= 0) await this.#pool?.close();
  }

  /**
   * A conversation as token ids. Throws INVALID_ARGUMENT for messages that are none, and where the
   * template refuses them.
   */
  async encodeChat(given: readonly ChatMessage[], options: ChatOptions): Promise<number[]> {
    requireOptions(options);
    const messages = checkedMessages(given);
    this.require("render a chat");
    const { chatTemplate: brought, tools, templateVariables: variables, signal } = options;
    const { addGenerationPrompt, continueFinalMessage = false, tokensMax = null } = options;
    if (brought === undefined && !this.hasTemplate) throw missingTemplate(this.#options.name);
    const bytesMax = this.#promptBytesMax();
    const size = unitsOf([messages, tools, variables], bytesMax);
    if (size > bytesMax) throw tooManyBytes(size, bytesMax, "messages");
    const answer = await this.#pool?.run(
      {
        kind: "chat",
        messages,
        options: {
          continueFinalMessage,
          ...(addGenerationPrompt === undefined ? {} : { addGenerationPrompt }),
          ...(tools === undefined ? {} : { tools }),
          ...(variables === undefined ? {} : { variables }),
        },
        template: brought ?? null,
        bytesMax,
        tokensMax,
        cacheSalt: options.cacheSalt ?? null,
      },
      // The cost of a client's own template is unknown.
      { size: brought === undefined ? size : Number.POSITIVE_INFINITY, signal },
    );
    if (answer?.toolsAsText === true) this.#options.warn(toolsWarning(this.#options.name));
    return answer === undefined ? [] : plainIds(answer.ids);
  }

  #promptBytesMax(): number {
    const byContext = Math.max(PROMPT_BYTES, (this.#contextTokens ?? 0) * TOKEN_BYTES);
    return this.#options.promptBytesMax ?? byContext;
  }
}

/** The template for tools beside the model's own, where tokenizer_config.json lists both. */
function toolTemplateOf(files: Checkpoint["tokenizer"]): TemplateSource | null {
  const listed = files?.tokenizerConfig?.chat_template;
  const text = Array.isArray(listed) ? pickTemplate(listed, true) : null;
  // A template in a file of its own takes precedence over the list.
  const isListed = Array.isArray(listed) && pickTemplate(listed, false) === files?.chatTemplate;
  return text === null || !isListed ? null : { text, from: "model" };
}

function toolsWarning(name: string): string {
  return (
    `the chat template of ${name} does not render tools, their calls or their results: they ` +
    "are put into the conversation as text, and the model may not have been trained on that"
  );
}

/** UTF-16 units of a value's texts, and some for each value in it; stops soon after `most`. */
function unitsOf(value: unknown, most: number): number {
  let units = 0;
  const waiting: unknown[] = [value];
  while (waiting.length > 0 && units <= most) {
    const next = waiting.pop();
    units += VALUE_UNITS;
    if (typeof next === "string") units += next.length;
    if (typeof next !== "object" || next === null) continue;
    for (const [key, inner] of Object.entries(next)) {
      if (!Array.isArray(next)) units += key.length;
      waiting.push(inner);
    }
  }
  return units;
}
