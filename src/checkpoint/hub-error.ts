import { EngineError, messageOf } from "#base";

/** The subject of a request to the hub, for messages. */
export interface HubRequest {
  readonly name: string;
  readonly hubUrl: string;
  readonly signal?: AbortSignal | undefined;
}

/** Converts any failure of a request to the hub to an EngineError with a remedy. */
export function hubError(thrown: unknown, request: HubRequest): EngineError {
  if (thrown instanceof EngineError) return thrown;
  const { name, hubUrl, signal } = request;
  const options = { cause: thrown };
  if (signal?.aborted === true) {
    const message = `Cannot download ${name}: the download was cancelled; run it again to resume`;
    return new EngineError("ABORTED", message, options);
  }
  const status = statusOf(thrown);
  if (status === 401 || status === 403) {
    return new EngineError(
      "UNAUTHORIZED",
      `Cannot download ${name}: the hub must grant access, current value is HTTP ${status}; ` +
        "check the name, accept the model's terms on its page, and pass --hub-token or set " +
        "HF_TOKEN",
      options,
    );
  }
  if (status === 404) {
    return new EngineError(
      "MODEL_NOT_FOUND",
      `Cannot download ${name}: the model and its revision must exist on ${hubUrl}, current ` +
        "value is HTTP 404; check the spelling of ORG/NAME and --revision",
      options,
    );
  }
  return new EngineError(
    "NETWORK",
    `Cannot download ${name}: ${hubUrl} must answer, ${reasonOf(thrown)}; check the connection, ` +
      "set HF_ENDPOINT to a mirror, or copy the model's directory here; the next run resumes",
    options,
  );
}

/** The HTTP status of the client library's errors. Null for others. */
export function statusOf(thrown: unknown): number | null {
  const has = typeof thrown === "object" && thrown !== null && "statusCode" in thrown;
  return has && typeof thrown.statusCode === "number" ? thrown.statusCode : null;
}

/** fetch reports "fetch failed"; the reason is its cause. */
function reasonOf(thrown: unknown): string {
  const cause = thrown instanceof Error ? thrown.cause : undefined;
  return cause === undefined ? messageOf(thrown) : `${messageOf(thrown)} (${messageOf(cause)})`;
}
