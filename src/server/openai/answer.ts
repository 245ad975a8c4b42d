import { EngineError } from "#base";
import type { FinishReason } from "#engine";
import type { ErrorBody } from "../http-errors.ts";

/** The answer of an endpoint: one JSON value, or events that are sent as they arrive. */
export type Answer =
  | { readonly kind: "json"; readonly value: unknown }
  /** JSON in UTF-8, for a value whose serialization takes several turns of the event loop. */
  | { readonly kind: "bytes"; readonly json: Buffer }
  /** Each item is sent at once: the text of zero or more events. */
  | {
      readonly kind: "events";
      readonly events: AsyncGenerator<string>;
      /** How it tells that it has failed. Default: as the route's dialect does. */
      failure?(body: ErrorBody): string;
    };

/**
 * A finish reason in OpenAI's terms. Throws ENGINE_STEP_FAILED if the sequence failed: a partial
 * answer must not look like a complete one.
 */
export function finishReason(reason: FinishReason | null): string | null {
  if (reason !== "error") return reason;
  throw new EngineError(
    "ENGINE_STEP_FAILED",
    "Cannot complete request: a step of the engine failed",
  );
}
