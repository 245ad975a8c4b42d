/** A model's output as Anthropic's content blocks: whole, or piece by piece. */
import type { AnswerReader, OutputPart } from "#chat";
import type { ChatGeneration } from "../openai/chat-generation.ts";

/** A content block of an answer. */
export type AnswerBlock =
  | { readonly type: "text"; text: string }
  | { readonly type: "thinking"; thinking: string; readonly signature: string }
  /** The arguments as JSON text: it may be cut off. */
  | { readonly type: "tool_use"; readonly id: string; readonly name: string; json: string };

/** What new output changes. */
export type BlockChange =
  | { readonly kind: "start"; readonly block: AnswerBlock }
  /** More of the block that was started last. */
  | { readonly kind: "more"; readonly block: AnswerBlock; readonly text: string };

/** Splits one sequence's text into blocks, as it arrives. */
export class AnswerBlocks {
  readonly #reader: AnswerReader | null;
  readonly #onlyOneCall: boolean;
  readonly #blocks: AnswerBlock[] = [];
  #calls = 0;

  constructor({ createReader, request }: ChatGeneration) {
    this.#reader = createReader?.() ?? null;
    this.#onlyOneCall = request.parallel_tool_calls === false;
  }

  get blocks(): readonly AnswerBlock[] {
    return this.#blocks;
  }

  get hasCalls(): boolean {
    return this.#calls > 0;
  }

  /** Takes more text and its tokens; `ended`: it is the last. */
  push(text: string, tokenIds: readonly number[], ended: boolean): BlockChange[] {
    if (this.#reader === null) return text === "" ? [] : this.#add("text", text);
    return this.#reader.push(text, tokenIds, ended).flatMap((part) => this.#take(part));
  }

  #take(part: OutputPart): BlockChange[] {
    switch (part.kind) {
      case "content":
        return this.#add("text", part.text);
      case "reasoning":
        return this.#add("thinking", part.text);
      case "call": {
        if (this.#onlyOneCall && part.index > 0) return [];
        this.#calls += 1;
        const id = part.id.replace(/^call_/, "toolu_");
        return this.#start({ type: "tool_use", id, name: part.name, json: "" });
      }
      case "arguments":
        return this.#onlyOneCall && part.index > 0 ? [] : this.#add("tool_use", part.text);
    }
  }

  #add(type: AnswerBlock["type"], text: string): BlockChange[] {
    const last = this.#blocks.at(-1);
    if (last?.type !== type) {
      if (type === "tool_use") return []; // arguments follow their call
      const begun: AnswerBlock =
        type === "text" ? { type, text: "" } : { type, thinking: "", signature: "" };
      return [...this.#start(begun), ...this.#add(type, text)];
    }
    if (last.type === "text") last.text += text;
    else if (last.type === "thinking") last.thinking += text;
    else last.json += text;
    return [{ kind: "more", block: last, text }];
  }

  #start(block: AnswerBlock): BlockChange[] {
    this.#blocks.push(block);
    // A copy: the block itself grows.
    return [{ kind: "start", block: { ...block } }];
  }
}

/** The block as it stands in an answer. Arguments that were cut off are none. */
export function wholeBlock(block: AnswerBlock): unknown {
  if (block.type !== "tool_use") return block;
  const { id, name, json } = block;
  return { type: "tool_use", id, name, input: objectIn(json) };
}

function objectIn(json: string): unknown {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {}; // a model wrote it, or its limit of tokens cut it off
  }
}
