import { EngineError, type ErrorCode, messageOf } from "#base";
import { fieldText, messageText } from "./error-text.ts";
import { requestNames } from "./request-names.ts";

/** An error in OpenAI's format. */
export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
  };
}

/** A failure as an HTTP answer. */
export interface HttpFailure {
  readonly status: number;
  readonly body: ErrorBody;
  /** Seconds after which a retry makes sense; null: a retry does not help. */
  readonly retryAfterSeconds: number | null;
}

interface Mapping {
  readonly status: number;
  readonly type: string;
  readonly code: string;
  readonly retryAfterSeconds?: number;
}

const invalid = (code: string, status = 400): Mapping => ({
  status,
  type: "invalid_request_error",
  code,
});
const broken = (code: string, status = 500): Mapping => ({ status, type: "server_error", code });

/** The one table from `ErrorCode` to HTTP; docs/errors.md is made from it. */
export const HTTP_ERRORS: Readonly<Record<ErrorCode, Mapping>> = {
  INVALID_ARGUMENT: invalid("invalid_argument"),
  PROMPT_TOO_LONG: invalid("context_length_exceeded"),
  MODEL_NOT_FOUND: invalid("model_not_found", 404),
  CHECKPOINT_INVALID: broken("checkpoint_invalid"),
  UNSUPPORTED_MODEL: invalid("unsupported_model"),
  TOKENIZER_MISSING: invalid("tokenizer_missing"),
  TOKENIZER_INVALID: broken("tokenizer_invalid"),
  GRAMMAR_INVALID: invalid("grammar_invalid"),
  GRAMMAR_UNAVAILABLE: broken("grammar_unavailable", 501),
  DEVICE_UNAVAILABLE: broken("device_unavailable", 503),
  DEVICE_FAILED: broken("device_failed"),
  OUT_OF_MEMORY: broken("out_of_memory"),
  QUEUE_FULL: {
    status: 429,
    type: "rate_limit_error",
    code: "rate_limit_exceeded",
    retryAfterSeconds: 1,
  },
  DEADLINE_UNMEETABLE: {
    status: 429,
    type: "rate_limit_error",
    code: "deadline_unmeetable",
    retryAfterSeconds: 1,
  },
  OVERLOADED: { ...broken("overloaded", 503), retryAfterSeconds: 1 },
  ENGINE_DEAD: broken("engine_dead", 503),
  ENGINE_STUCK: broken("engine_stuck", 503),
  ENGINE_STEP_FAILED: broken("engine_step_failed"),
  NOT_READY: { ...broken("not_ready", 503), retryAfterSeconds: 1 },
  SHUTTING_DOWN: { ...broken("shutting_down", 503), retryAfterSeconds: 5 },
  ABORTED: invalid("aborted", 499),
  UNAUTHORIZED: { status: 401, type: "authentication_error", code: "invalid_api_key" },
  WORKER_FAILED: broken("worker_failed", 502),
  WORKER_TIMEOUT: broken("worker_timeout", 504),
  ROLE_CHANGED: invalid("role_changed", 409),
  STORE_UNAVAILABLE: broken("store_unavailable", 503),
  CORPUS_INVALID: invalid("corpus_invalid", 409),
  NETWORK: broken("network", 502),
  IO: broken("io"),
};

/** A failure that exists only in HTTP: a wrong path, method, content type or body. */
export class HttpError extends Error {
  override readonly name = "HttpError";
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
    this.code = code;
  }
}

/** A wrong field by the name that its client sent: `maxTokens` is not told as `max_tokens`. */
export class SentFieldError extends EngineError {
  constructor(param: string, message: string) {
    super("INVALID_ARGUMENT", message, { param });
  }
}

/** Any thrown value as an answer. The message of a status 500 appears only in the log. */
export function httpFailure(thrown: unknown): HttpFailure {
  if (thrown instanceof EngineError) return engineFailure(thrown);
  if (thrown instanceof HttpError) return failure(invalid(thrown.code, thrown.status), thrown);
  const status = clientStatus(thrown);
  if (status !== null) return failure(invalid(frameworkCode(thrown), status), thrown);
  return failure(broken("internal_error"), thrown);
}

/** Converts the engine's field names to those of requests: `topP` becomes `top_p`. */
function engineFailure(error: EngineError): HttpFailure {
  const { code, message, param, retryAfterSeconds } = error;
  const mapping = { ...HTTP_ERRORS[code], ...(retryAfterSeconds && { retryAfterSeconds }) };
  if (param === null) return failure(mapping, error);
  const field = error instanceof SentFieldError ? param : requestNames(param);
  return failure(mapping, message.replaceAll(param, field), field);
}

function failure(mapping: Mapping, thrown: unknown, param: string | null = null): HttpFailure {
  const { status, type, code } = mapping;
  const message =
    status === 500
      ? "Cannot complete request: the server failed; its log says why"
      : messageText(messageOf(thrown));
  return {
    status,
    body: { error: { message, type, param: param === null ? null : fieldText(param), code } },
    retryAfterSeconds: mapping.retryAfterSeconds ?? null,
  };
}

/** Fastify marks client errors with a 4xx `statusCode`. */
function clientStatus(thrown: unknown): number | null {
  if (!(thrown instanceof Error) || !("statusCode" in thrown)) return null;
  const status = thrown.statusCode;
  return typeof status === "number" && status >= 400 && status < 500 ? status : null;
}

function frameworkCode(thrown: unknown): string {
  if (!(thrown instanceof Error) || !("code" in thrown)) return "bad_request";
  return String(thrown.code)
    .replace(/^FST_ERR_(CTP_)?/, "")
    .toLowerCase();
}
