/**
 * What the suite found and nobody has mended yet, with the reason. Cases that match are not sent.
 * Empty is right: an entry is a promise that is not kept.
 */
import type { BodyCase } from "./hostile-case.ts";

interface KnownFailure {
  readonly matches: (one: BodyCase) => boolean;
  readonly reason: string;
}

const grammarFields =
  /"(guided_|structured_outputs"|response_format"|tool_choice":("required"|\{)|\w*_format")/;

export const KNOWN_FAILURES: readonly KnownFailure[] = [
  {
    matches: ({ body }) => grammarFields.test(body),
    reason: "grammars are compiled on the engine's thread, without a limit to what that costs",
  },
];

/** Whether the case is not sent. */
export function isKnownFailure(one: BodyCase): boolean {
  return KNOWN_FAILURES.some(({ matches }) => matches(one));
}
