import { InvalidArgumentError } from "@ai-sdk/provider";
import type { Retention } from "./chat-source.ts";

/** How long blocks of the cache stay, by ranges of the prompt's tokens. */
export type PerigeeRetention = Retention;

/** `providerOptions.perigee` of a call. */
export interface PerigeeOptions {
  /** How long the request's blocks stay in the cache. */
  readonly retention?: PerigeeRetention;
  /** Requests with another salt share no cached blocks. */
  readonly cacheSalt?: string;
  /** Smaller ones run first where the scheduler's policy is `priority`. */
  readonly priority?: number;
  /** Sets `enable_thinking` of the chat template; stronger than the call's `reasoning`. */
  readonly thinking?: boolean;
  /** False: at most one call of a tool. */
  readonly parallelToolCalls?: boolean;
  /** More variables for the chat template. */
  readonly templateVariables?: Readonly<Record<string, unknown>>;
  /** False: draft no tokens. */
  readonly speculative?: boolean;
}

const KINDS: Readonly<Record<keyof PerigeeOptions, string>> = {
  retention: "object",
  cacheSalt: "string",
  priority: "number",
  thinking: "boolean",
  parallelToolCalls: "boolean",
  templateVariables: "object",
  speculative: "boolean",
};

/** The options of this provider. Throws InvalidArgumentError for unknown names and wrong kinds. */
export function perigeeOptions(
  given: Readonly<Record<string, Readonly<Record<string, unknown>>>> | undefined,
): PerigeeOptions {
  const options = given?.perigee ?? {};
  for (const [name, value] of Object.entries(options)) {
    const kind = Object.hasOwn(KINDS, name) ? KINDS[name as keyof PerigeeOptions] : null;
    const wanted = kind === null ? `one of ${Object.keys(KINDS).join(", ")}` : `a ${kind}`;
    if (kind !== null && (value === undefined || (value !== null && typeof value === kind)))
      continue;
    const argument = `providerOptions.perigee.${name}`;
    throw new InvalidArgumentError({
      argument,
      message: `Cannot use ${argument}: must be ${wanted}`,
    });
  }
  // Names and kinds were checked; what an object contains the engine checks.
  return options as PerigeeOptions;
}
