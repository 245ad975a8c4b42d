import { HermesParser } from "./hermes.ts";
import { Llama3Parser } from "./llama3.ts";
import type { OutputPart, ToolCallContext, ToolCallParser } from "./tool-call-parser.ts";

const PYTHON_TAG = "<|python_tag|>";

/** Uses Llama 3's format if the text begins like it, Hermes' format otherwise. */
export class AutoParser implements ToolCallParser {
  readonly #context: ToolCallContext;
  #chosen: ToolCallParser | null = null;
  #buffer = "";

  constructor(context: ToolCallContext) {
    this.#context = context;
  }

  push(text: string): OutputPart[] {
    if (this.#chosen !== null) return this.#chosen.push(text);
    this.#buffer += text;
    const beginning = this.#buffer.trimStart();
    const undecided = beginning.length < PYTHON_TAG.length && PYTHON_TAG.startsWith(beginning);
    return undecided ? [] : this.#choose(beginning).push(this.#buffer);
  }

  finish(): OutputPart[] {
    if (this.#chosen !== null) return this.#chosen.finish();
    const parser = this.#choose(this.#buffer.trimStart());
    return [...parser.push(this.#buffer), ...parser.finish()];
  }

  #choose(beginning: string): ToolCallParser {
    const bare = beginning.startsWith("{") || beginning.startsWith(PYTHON_TAG);
    this.#chosen = bare ? new Llama3Parser(this.#context) : new HermesParser(this.#context);
    return this.#chosen;
  }
}
