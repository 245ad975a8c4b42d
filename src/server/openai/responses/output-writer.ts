/** A response's output as it comes: items, and the events that tell of them. */
import type { OutputPart } from "#chat";
import type { FileCitation, FoundFile } from "../file-search.ts";
import type { EventLog } from "./event-log.ts";
import { itemIdOf } from "./response-ids.ts";

/** How an item has ended. */
export type ItemStatus = "completed" | "incomplete";

/** An item in the API's form. */
export interface OutputItem {
  readonly id: string;
  readonly type: string;
  status: "in_progress" | "searching" | ItemStatus;
}

interface TextPart {
  readonly type: "output_text";
  text: string;
  readonly annotations: object[];
  readonly logprobs: object[];
}

interface MessageOutput extends OutputItem {
  readonly role: "assistant";
  readonly content: TextPart[];
}

interface ReasoningOutput extends OutputItem {
  readonly summary: readonly [];
  readonly content: { readonly type: "reasoning_text"; text: string }[];
}

interface CallOutput extends OutputItem {
  readonly call_id: string;
  readonly name: string;
  arguments: string;
}

interface SearchOutput extends OutputItem {
  readonly queries: readonly string[];
  results: readonly object[] | null;
}

/** The item that is being written. */
type Open =
  | { readonly kind: "message"; readonly item: MessageOutput; readonly part: TextPart }
  | {
      readonly kind: "reasoning";
      readonly item: ReasoningOutput;
      readonly part: ReasoningOutput["content"][number];
    }
  | { readonly kind: "call"; readonly item: CallOutput; readonly index: number }
  | { readonly kind: "search"; readonly item: SearchOutput };

export class OutputWriter {
  /** Items so far; the last one may still grow. */
  readonly items: OutputItem[] = [];
  readonly #log: EventLog;
  readonly #responseId: string;
  #open: Open | null = null;

  constructor(responseId: string, log: EventLog) {
    this.#responseId = responseId;
    this.#log = log;
  }

  /** More of what the model thinks. */
  reason(text: string): void {
    if (text === "") return;
    const { item, part } = this.#reasoning();
    part.text += text;
    this.#tell("reasoning_text.delta", item, { content_index: 0, delta: text });
  }

  /** More of what is said; `logprobs` of its tokens. */
  say(text: string, logprobs: readonly object[] = []): void {
    if (text === "" && logprobs.length === 0) return;
    const { item, part } = this.#message();
    part.text += text;
    part.logprobs.push(...logprobs);
    this.#tell("output_text.delta", item, { content_index: 0, delta: text, logprobs });
  }

  /** A citation in what has been said last. */
  cite({ fileId, filename, index }: FileCitation): void {
    const { item, part } = this.#message();
    const annotation = { type: "file_citation", file_id: fileId, filename, index };
    part.annotations.push(annotation);
    const place = { content_index: 0, annotation_index: part.annotations.length - 1 };
    this.#tell("output_text.annotation.added", item, { ...place, annotation });
  }

  /** A call, or more of its arguments. */
  call(part: Extract<OutputPart, { readonly kind: "call" | "arguments" }>): void {
    if (part.kind === "call") {
      this.close("completed");
      const fields = { call_id: part.id, name: part.name, arguments: "" };
      const item: CallOutput = { ...this.#head("fc", "function_call"), ...fields };
      this.#begin({ kind: "call", item, index: part.index });
    } else if (this.#open?.kind === "call" && this.#open.index === part.index) {
      const { item } = this.#open;
      item.arguments += part.text;
      this.#tell("function_call_arguments.delta", item, { delta: part.text });
    }
  }

  /** Files are being searched. */
  search(query: string): void {
    const head = this.#head("fs", "file_search_call");
    const item: SearchOutput = { ...head, queries: [query], results: null };
    this.#begin({ kind: "search", item });
    this.#tell("file_search_call.in_progress", item, {});
    this.#tell("file_search_call.searching", item, {});
  }

  /** What the search has found; null: the request does not ask to be told. */
  found(results: readonly FoundFile[] | null): void {
    if (this.#open?.kind !== "search") return;
    this.#open.item.results = results?.map(resultBody) ?? null;
    this.close("completed");
  }

  /** Ends the item that is being written. */
  close(status: ItemStatus): void {
    const open = this.#open;
    if (open === null) return;
    this.#open = null;
    const { item } = open;
    item.status = status;
    if (open.kind === "message") this.#tell("output_text.done", item, textDone(open.part));
    if (open.kind === "reasoning") {
      this.#tell("reasoning_text.done", item, { content_index: 0, text: open.part.text });
    }
    if ("part" in open)
      this.#tell("content_part.done", item, { content_index: 0, part: open.part });
    if (open.kind === "call") {
      const { name, arguments: text } = open.item;
      this.#tell("function_call_arguments.done", item, { name, arguments: text });
    }
    if (open.kind === "search") this.#tell("file_search_call.completed", item, {});
    this.#log.emit("response.output_item.done", { output_index: this.#place, item });
  }

  /** An empty message, where there is nothing else: an answer always has an output. */
  fill(): void {
    if (this.items.length === 0) this.#message();
  }

  #message(): Extract<Open, { kind: "message" }> {
    if (this.#open?.kind === "message") return this.#open;
    this.close("completed");
    const part: TextPart = { type: "output_text", text: "", annotations: [], logprobs: [] };
    const head = this.#head("msg", "message");
    const item: MessageOutput = { ...head, role: "assistant", content: [] };
    return this.#begin({ kind: "message", item, part });
  }

  #reasoning(): Extract<Open, { kind: "reasoning" }> {
    if (this.#open?.kind === "reasoning") return this.#open;
    this.close("completed");
    const part = { type: "reasoning_text" as const, text: "" };
    const head = this.#head("rs", "reasoning");
    const item: ReasoningOutput = { ...head, summary: [], content: [] };
    return this.#begin({ kind: "reasoning", item, part });
  }

  #head(prefix: string, type: string): OutputItem {
    const id = itemIdOf(this.#responseId, prefix, this.items.length);
    return { id, type, status: "in_progress" };
  }

  #begin<Kind extends Open>(open: Kind): Kind {
    this.#open = open;
    const { item } = open;
    this.items.push(item);
    this.#log.emit("response.output_item.added", { output_index: this.#place, item });
    if ("part" in open) {
      this.#tell("content_part.added", item, { content_index: 0, part: open.part });
      (item as { content: object[] }).content.push(open.part);
    }
    return open;
  }

  get #place(): number {
    return this.items.length - 1;
  }

  #tell(type: string, { id }: OutputItem, fields: object): void {
    const place = { output_index: this.#place, item_id: id };
    this.#log.emit(`response.${type}`, { ...place, ...fields });
  }
}

function textDone({ text, logprobs }: TextPart): object {
  return { content_index: 0, text, logprobs };
}

function resultBody({ fileId, filename, score, text, attributes }: FoundFile): object {
  return { file_id: fileId, filename, score, text, attributes };
}
