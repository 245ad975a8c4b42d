import { EngineError } from "#base";
import type { FinishReason } from "#engine";

/** What an endpoint answers: one JSON value, or events that are sent as they come. */
export type Answer =
  | { readonly kind: "json"; readonly value: unknown }
  /** Each item is what is to be sent at once: the text of some events, or of none. */
  | { readonly kind: "events"; readonly events: AsyncGenerator<string> };

/**
 * A finish reason as clients know it. Throws where the sequence failed: half an answer must not
 * look like a whole one.
 */
export function finishReason(reason: FinishReason | null): string | null {
  if (reason !== "error") return reason;
  throw new EngineError(
    "ENGINE_STEP_FAILED",
    "Cannot complete request: a step of the engine failed",
  );
}
