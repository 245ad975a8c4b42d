/**
 * Every failure that a caller may need to distinguish. One union for the whole project;
 * `server/http-errors.ts` alone maps codes to HTTP.
 */
export type ErrorCode =
  | "INVALID_ARGUMENT" // a flag, option or request field is wrong
  | "PROMPT_TOO_LONG" // a prompt, or it and its output, can never fit the context or KV pool
  | "MODEL_NOT_FOUND" // no such directory, file, hub repository or served model
  | "CHECKPOINT_INVALID" // truncated, false or inconsistent model files
  | "UNSUPPORTED_MODEL" // a file format, model_type or feature that this version does not run
  | "TOKENIZER_MISSING" // a text request to a model without a tokenizer
  | "TOKENIZER_INVALID" // tokenizer files cannot be used
  | "GRAMMAR_INVALID" // a structured-output grammar cannot be compiled
  | "GRAMMAR_UNAVAILABLE" // structured output needs a library that this platform lacks
  | "DEVICE_UNAVAILABLE" // a device, its library or its instruction set is missing
  | "DEVICE_FAILED" // a GPU or its context failed during work: only a new process helps
  | "OUT_OF_MEMORY" // weights or the KV pool do not fit
  | "QUEUE_FULL" // too many waiting requests; try later
  | "DEADLINE_UNMEETABLE" // a fleet would miss a deadline of the request; try later
  | "OVERLOADED" // all workers of a fleet are busy; try later
  | "ENGINE_DEAD" // the engine has ended: only loading the model again helps
  | "ENGINE_STUCK" // a step takes longer than any should: only a new process helps
  | "ENGINE_STEP_FAILED" // a step failed and ended its requests; the engine continues
  | "NOT_READY" // the model is still being loaded; try later
  | "SHUTTING_DOWN" // the server stops or the model is closed: no new work is taken
  | "ABORTED" // a cancelled download, a closed connection; calls reject with their signal's reason
  | "UNAUTHORIZED" // a missing or wrong API key or hub token
  | "WORKER_FAILED" // workers of a fleet failed, and none could take over
  | "WORKER_TIMEOUT" // a worker of a fleet did not answer in time, and none could take over
  | "ROLE_CHANGED" // a worker of a fleet does other work than who asked it knew
  | "STORE_UNAVAILABLE" // a store of vectors cannot be reached, refuses, or is full
  | "CORPUS_INVALID" // a corpus of another embedder, dimension or schema
  | "NETWORK" // a download, or a server that is measured, failed
  | "IO"; // a local file or port cannot be used

/** Fields of an error beside its message. */
export interface EngineErrorOptions {
  readonly cause?: unknown;
  /** The request field, flag or file field that is wrong, e.g. `temperature`. */
  readonly param?: string;
  /** After which time trying again may help. */
  readonly retryAfterSeconds?: number;
}

/**
 * An error of the caller or the environment. Message: *Cannot <action>: <wanted>, <current value>*,
 * with the remedy where there is one; capital first, no full stop.
 */
export class EngineError extends Error {
  override readonly name = "EngineError";
  readonly code: ErrorCode;
  readonly param: string | null;
  /** Null: the code alone says. */
  readonly retryAfterSeconds: number | null;

  constructor(code: ErrorCode, message: string, options: EngineErrorOptions = {}) {
    super(bounded(message), options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.param = options.param ?? null;
    this.retryAfterSeconds = options.retryAfterSeconds ?? null;
  }
}

/** Longest message, in UTF-16 units: a quoted value may be of any length. */
const MESSAGE_LENGTH_MAX = 1500;
/** The end of a longer message that is kept, since the remedy is there. */
const END_LENGTH = 300;

function bounded(message: string): string {
  if (message.length <= MESSAGE_LENGTH_MAX) return message;
  const start = message.slice(0, MESSAGE_LENGTH_MAX - END_LENGTH);
  return `${start} … ${message.slice(-END_LENGTH)}`;
}

/** The message of any thrown value. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
