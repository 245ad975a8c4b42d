/**
 * Every failure that a caller may want to tell apart. One union for the whole project;
 * `server/http-errors.ts` alone maps codes to HTTP.
 */
export type ErrorCode =
  | "INVALID_ARGUMENT" // a flag, option or request field is wrong
  | "PROMPT_TOO_LONG" // can never fit the context or the KV pool
  | "MODEL_NOT_FOUND" // no such directory, file or hub repository
  | "CHECKPOINT_INVALID" // truncated, lying or inconsistent model files
  | "UNSUPPORTED_MODEL" // a model_type or a feature that no architecture maps
  | "TOKENIZER_MISSING" // text was asked of a model that has token ids only
  | "TOKENIZER_INVALID" // tokenizer files cannot be used
  | "GRAMMAR_INVALID" // a structured-output grammar cannot be compiled
  | "DEVICE_UNAVAILABLE" // a device or its library is missing
  | "OUT_OF_MEMORY" // weights or the KV pool do not fit
  | "QUEUE_FULL" // too many waiting requests; try later
  | "ENGINE_DEAD" // the engine thread is gone
  | "ENGINE_STEP_FAILED" // a throw inside a step ended this request
  | "SHUTTING_DOWN" // no new work is taken
  | "ABORTED" // the caller cancelled
  | "UNAUTHORIZED" // a missing or wrong API key
  | "NETWORK" // a download failed
  | "IO"; // a local file cannot be read or written

export interface EngineErrorOptions {
  readonly cause?: unknown;
  /** The request field, flag or file field that is wrong, e.g. `temperature`. */
  readonly param?: string;
}

/**
 * A failure of the caller or the world. Message: *Cannot <action>: <wanted>, <current value>*,
 * with the remedy where there is one; capital first, no full stop.
 */
export class EngineError extends Error {
  override readonly name = "EngineError";
  readonly code: ErrorCode;
  readonly param: string | null;

  constructor(code: ErrorCode, message: string, options: EngineErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.param = options.param ?? null;
  }
}

/** The message of whatever was thrown. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
