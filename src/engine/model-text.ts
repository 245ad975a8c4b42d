import { EngineError } from "#base";
import type { Checkpoint } from "#checkpoint";
import type { ThinkingMarks } from "#sampling";
import { badWordTokens, ChatTemplate, missingTemplate, Tokenizer } from "#tokenizer";
import type { ChatMessage, ChatOptions, Prompt } from "./api.ts";

/** Begin and end of a reasoning model's thoughts, in the families that have them as tokens. */
const THINKING_MARKS = [
  ["<think>", "</think>"],
  ["[THINK]", "[/THINK]"],
  ["<seed:think>", "</seed:think>"],
] as const;

/** The text side of one model: its tokenizer and chat template, where it has them. */
export class ModelText {
  readonly tokenizer: Tokenizer | null;
  readonly #template: ChatTemplate | null;
  readonly #name: string;

  /** `template`: the text of a chat template instead of the model's own. */
  constructor(files: Checkpoint["tokenizer"], name: string, template: string | null) {
    this.#name = name;
    this.tokenizer = files === null ? null : new Tokenizer(files);
    const own = files?.chatTemplate ?? null;
    const source = template ?? own;
    this.#template =
      source === null
        ? null
        : new ChatTemplate(source, {
            ...this.#templateScope(),
            source: template === null ? "model" : "request",
          });
  }

  get hasTemplate(): boolean {
    return this.#template !== null;
  }

  /** The tokenizer, for something that cannot do without. Throws TOKENIZER_MISSING. */
  require(action: string): Tokenizer {
    if (this.tokenizer !== null) return this.tokenizer;
    throw new EngineError(
      "TOKENIZER_MISSING",
      `Cannot ${action}: ${this.#name} has no tokenizer (give token ids instead of text)`,
    );
  }

  async encode(prompt: Prompt): Promise<readonly number[]> {
    if (typeof prompt !== "string") return prompt.promptTokenIds;
    return this.require("encode text").encode(prompt, { addSpecialTokens: true });
  }

  badWords(words: readonly string[]): number[][] {
    return words.length === 0 ? [] : badWordTokens(this.require("forbid words"), words);
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
        `those of ${this.#name} do not; leave thinkingTokenBudget out`,
      { param: "thinkingTokenBudget" },
    );
  }

  /** Stops what the tokenizer runs beside this thread. */
  async dispose(): Promise<void> {
    await this.tokenizer?.dispose();
  }

  /** A conversation as token ids. Throws INVALID_ARGUMENT where the template refuses it. */
  async encodeChat(messages: readonly ChatMessage[], options: ChatOptions): Promise<number[]> {
    const tokenizer = this.require("render a chat");
    const text = this.#templateFor(options).render(messages, {
      continueFinalMessage: options.continueFinalMessage ?? false,
      ...(options.addGenerationPrompt === undefined
        ? {}
        : { addGenerationPrompt: options.addGenerationPrompt }),
      ...(options.tools === undefined ? {} : { tools: options.tools }),
      ...(options.templateVariables === undefined ? {} : { variables: options.templateVariables }),
    });
    return tokenizer.encode(text, { addSpecialTokens: false });
  }

  #templateFor(options: ChatOptions): ChatTemplate {
    if (options.chatTemplate !== undefined) {
      return new ChatTemplate(options.chatTemplate, {
        ...this.#templateScope(),
        source: "request",
      });
    }
    if (this.#template === null) throw missingTemplate(this.#name);
    return this.#template;
  }

  #templateScope() {
    return this.tokenizer === null ? {} : { namedTokens: this.tokenizer.namedTokens };
  }
}
