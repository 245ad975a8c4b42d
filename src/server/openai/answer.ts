import { EngineError } from "#base";
import type { FinishReason } from "#engine";

/** What an endpoint answers: one JSON value, or events that are sent as they come. */
export type Answer =
  | { readonly kind: "json"; readonly value: unknown }
  /** A value so long that writing it takes turns of the event loop: its JSON in UTF-8. */
  | { readonly kind: "bytes"; readonly json: Buffer }
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
