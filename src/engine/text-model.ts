import { requireOptions } from "#base";
import { resolveModel } from "#checkpoint";
import { type ModelText, nameOf, readFiles } from "#engine/caller";
import {
  type ChatMessage,
  type ChatOptions,
  parseEngineOptions,
  type TextCodec,
} from "#engine/protocol";

/** What `TextModel.open` takes. */
export interface TextModelOptions {
  /** Receives warnings. */
  readonly onWarning: (message: string) => void;
}

/**
 * The text side of a model without its weights: tokenizer and chat template, on threads that can be
 * stopped. For processes that read prompts and compute nothing.
 */
export class TextModel implements AsyncDisposable {
  readonly name: string;
  readonly #text: ModelText;

  private constructor(name: string, text: ModelText) {
    this.name = name;
    this.#text = text;
  }

  /**
   * Opens a folder or file like `LLM.load`.
   *
   * @throws EngineError MODEL_NOT_FOUND, CHECKPOINT_INVALID, TOKENIZER_INVALID
   */
  static async open(model: string, options: TextModelOptions): Promise<TextModel> {
    requireOptions(options);
    const { onWarning } = options;
    const settings = parseEngineOptions({});
    const path = await resolveModel(model, {});
    const name = nameOf(model);
    const { text } = await readFiles(path, { name, template: null, settings, onWarning });
    return new TextModel(name, text);
  }

  /** Throws MODEL_NOT_FOUND where `open` would. */
  static async check(model: string): Promise<void> {
    await resolveModel(model, {});
  }

  /** Null: it has no tokenizer. */
  get codec(): TextCodec | null {
    return this.#text.codec;
  }

  /** A conversation as token ids. */
  async chatPrompt(
    messages: readonly ChatMessage[],
    options: ChatOptions = {},
  ): Promise<{ readonly promptTokenIds: number[] }> {
    return { promptTokenIds: await this.#text.encodeChat(messages, options) };
  }

  async close(): Promise<void> {
    await this.#text.dispose();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
