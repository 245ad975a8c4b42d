import { EngineError } from "#base";
import type { EmbedRequest } from "./protocol.ts";

/** Throws PROMPT_TOO_LONG. A text that was cut in silence would have the vector of another one. */
export function checkEmbedLength({ promptTokenIds }: EmbedRequest, tokensMax: number): void {
  const { length } = promptTokenIds;
  if (length <= tokensMax) return;
  throw new EngineError(
    "PROMPT_TOO_LONG",
    `Cannot embed text: it must fit ${tokensMax} tokens, current value is ${length}; shorten it`,
    { param: "input" },
  );
}
