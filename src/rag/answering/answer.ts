/** What asking yields, as plain data. */
import type { Chunk } from "#rag/texts";
import type { Support } from "./support.ts";

/** A passage that the model was given, or that can be quoted where its context had no room. */
export interface Source {
  /** What citations call it, from 1, in the prompt's order. */
  readonly number: number;
  readonly chunk: Chunk;
  /** Of the search: larger is better, comparable within one question alone. */
  readonly score: number;
}

/** A source that the answer names. */
export interface Citation {
  /** `Source.number`. */
  readonly number: number;
  /** Where its `[n]` begins in the answer's text, in UTF-16 units. */
  readonly at: number;
  /** The part of the answer that it stands for. */
  readonly claim: string;
  /** How the source says the claim; null: it does not, as far as words tell. */
  readonly support: Support;
  /** Written by the model, or added because the source has the answer's very words. */
  readonly by: "model" | "match";
}

/** Why there is no answer: nothing fits the question, or the model finds it in no passage. */
export type Refusal = "no_sources" | "not_found";

/** What answering took. */
export interface AskUsage {
  readonly promptTokens: number;
  /** Prompt tokens whose keys and values were in the cache. */
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** From the search's end to the first token; null where nothing was generated. */
  readonly firstTokenMs: number | null;
}

/** A whole answer. */
export interface Answer {
  /** With citations as `[n]`. */
  readonly text: string;
  /** As it was answered: with what it leaned on in the conversation. */
  readonly question: string;
  readonly sources: readonly Source[];
  readonly citations: readonly Citation[];
  /** Numbers that the model cited and was not given; left out of the text. */
  readonly dropped: readonly number[];
  /** Null: it was answered. */
  readonly refusal: Refusal | null;
  /** `length`: the answer was cut off at its most tokens. */
  readonly finishReason: "stop" | "length";
  readonly usage: AskUsage;
}

/** What asking yields, in this order; `text` and `citation` any number of times. */
export type AskEvent =
  /** The question that is searched for. `rewritten`: by the conversation before it. */
  | { readonly type: "question"; readonly text: string; readonly rewritten: boolean }
  /** What the model is given; empty where nothing fits. */
  | { readonly type: "sources"; readonly sources: readonly Source[] }
  /** More of the answer's text, citations included. */
  | { readonly type: "text"; readonly text: string }
  /** Behind the text with its number. */
  | { readonly type: "citation"; readonly citation: Citation }
  /** The whole answer, at the end. */
  | { readonly type: "answer"; readonly answer: Answer };
