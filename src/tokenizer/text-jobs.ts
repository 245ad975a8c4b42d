/** Jobs and answers of a text thread: plain data that crosses threads. */
import { EngineError, type ErrorCode } from "#base";
import type { RenderOptions } from "./chat-template.ts";
import type { TemplateMessage } from "./template-message.ts";
import type { TokenizerFiles } from "./tokenizer-files.ts";

/** A chat template: its text, and its source, which decides the error code if parsing fails. */
export interface TemplateSource {
  readonly text: string;
  readonly from: "model" | "request";
}

/** Texts to token ids. */
export interface EncodeJob {
  readonly kind: "encode";
  readonly texts: readonly string[];
  readonly addSpecialTokens: boolean;
  /** Of the request. Default: none. */
  readonly cacheSalt?: string | null;
}

/** A conversation to token ids. */
export interface ChatJob {
  readonly kind: "chat";
  readonly messages: readonly TemplateMessage[];
  readonly options: RenderOptions;
  /** The request's own template; null: the model's. */
  readonly template: string | null;
  /** Maximum length of the rendered text, in bytes. */
  readonly bytesMax: number;
  /** Maximum prompt tokens, checked against a lower bound before encoding; null: no limit. */
  readonly tokensMax: number | null;
  /** Of the request. Default: none. */
  readonly cacheSalt?: string | null;
}

/** Words to the token sequences that spell them. */
export interface BadWordsJob {
  readonly kind: "badWords";
  readonly words: readonly string[];
}

/** Token ids to text. */
export interface DecodeJob {
  readonly kind: "decode";
  readonly ids: readonly number[];
  readonly skipSpecialTokens: boolean;
}

export type TextJob = EncodeJob | ChatJob | BadWordsJob | DecodeJob;

/** A rendered and encoded conversation. */
export interface ChatAnswer {
  readonly ids: Int32Array;
  /** The template does not support tools: they were put into the conversation as text. */
  readonly toolsAsText: boolean;
}

/** The answer to each kind of job. */
export interface TextAnswers {
  readonly encode: readonly Int32Array[];
  readonly chat: ChatAnswer;
  readonly badWords: readonly (readonly number[])[];
  readonly decode: string;
}

export type TextAnswer = TextAnswers[TextJob["kind"]];

/** Start data of a text thread. The memory is shared between all text threads, not copied. */
export interface TextThreadData {
  /** JSON of `SharedText` as UTF-8. */
  readonly shared: SharedArrayBuffer;
  /** [id of the running job or 0, jobs begun]: the pool can read it while the thread is busy. */
  readonly status: SharedArrayBuffer;
  /** How long an idle thread waits for work before it ends. */
  readonly idleMs: number;
}

/** The data that all text threads of a model share. */
export interface SharedText {
  readonly files: TokenizerFiles;
  readonly template: TemplateSource | null;
  /** The model's other template for conversations with tools, if it has one. */
  readonly toolTemplate: TemplateSource | null;
}

/** Indexes in `TextThreadData.status`. */
export const STATUS_JOB = 0;
export const STATUS_BEGUN = 1;
export const STATUS_LENGTH = 2;

/** A message to a text thread. Ids count from 1. */
export interface TextCall {
  readonly id: number;
  readonly job: TextJob;
}

/** An `EngineError` as plain data. */
export interface TextFailure {
  readonly code: ErrorCode;
  readonly message: string;
  readonly param: string | null;
}

/** A message from a text thread: one with id 0 when it is ready, then one per call. */
export type TextReply =
  | { readonly id: 0 }
  | { readonly id: number; readonly answer: TextAnswer }
  | { readonly id: number; readonly failure: TextFailure };

/** Any thrown value as data; unless it is an `EngineError`, the text is at fault. */
export function failureOf(thrown: unknown, job: TextJob): TextFailure {
  if (thrown instanceof EngineError) {
    const { code, message, param } = thrown;
    return { code, message, param };
  }
  const reason = thrown instanceof Error ? thrown.message : String(thrown);
  const [action, param] = WORDS[job.kind];
  return { code: "INVALID_ARGUMENT", message: `Cannot ${action}: ${reason}`, param };
}

/** The action of a job, and the request field that it concerns. */
export const WORDS: Readonly<Record<TextJob["kind"], readonly [action: string, param: string]>> = {
  encode: ["encode the prompt", "prompt"],
  chat: ["render the conversation", "messages"],
  badWords: ["encode the words to forbid", "badWords"],
  decode: ["decode tokens", "tokens"],
};

export function errorOf({ code, message, param }: TextFailure): EngineError {
  return new EngineError(code, message, param === null ? {} : { param });
}
