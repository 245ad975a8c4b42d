/** Errors and warnings about texts to embed. */
import { EngineError } from "#base";
import type { ModelInfo } from "./api.ts";
import type { EmbedRequest } from "./protocol.ts";

/** The option's names in TypeScript and over HTTP. */
const CUT_OR_SHORTEN =
  "shorten it, or have the end cut off (truncate: true, over HTTP truncate_prompt_tokens: -1)";

/** Throws PROMPT_TOO_LONG. A silently truncated text would have the vector of another text. */
export function checkEmbedLength({ promptTokenIds }: EmbedRequest, tokensMax: number): void {
  const { length } = promptTokenIds;
  if (length <= tokensMax) return;
  throw new EngineError(
    "PROMPT_TOO_LONG",
    `Cannot embed text: it must fit ${tokensMax} tokens, current value is ${length}; ` +
      CUT_OR_SHORTEN,
    { param: "input" },
  );
}

/** The same failure with what to do, and with the place of the text, where it is one of many. */
export function embedFailure(thrown: unknown, place: number, count: number): unknown {
  const isOwn = thrown instanceof EngineError && thrown.code === "PROMPT_TOO_LONG";
  if (!isOwn) return thrown;
  // Where a text is refused before it is a number of tokens, what can be done is not yet said.
  const remedied = thrown.message.replace(/; shorten it$/, `; ${CUT_OR_SHORTEN}`);
  const name = count === 1 ? "input" : `input[${place}]`;
  const message = remedied.replace(/^Cannot (use|embed) \w+/, `Cannot $1 ${name}`);
  return new EngineError(thrown.code, message, { cause: thrown, param: name });
}

/** Warns that vectors come from a decoder whose files do not specify how to embed. */
export function warnOfGuess(
  { name, kind, embedding }: ModelInfo,
  warn: (text: string) => void,
): void {
  if (kind !== "decoder" || embedding === null || embedding.declared) return;
  warn(
    `${name} generates text, and its files do not say how to embed: its vectors are means of ` +
      "the last hidden states, which work worse for search than those of a model that was " +
      "trained to embed; use one, e.g. the bundled one, which is called embedder: " +
      'LLM.load("embedder"), perigee serve embedder',
  );
}
