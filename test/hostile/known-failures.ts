/**
 * What the suite found and is not mended yet, with the reason. Cases that match are not sent.
 * Empty is right: an entry is a promise that is not kept.
 */
import type { BodyCase } from "./hostile-case.ts";

interface KnownFailure {
  readonly matches: (one: BodyCase) => boolean;
  readonly reason: string;
}

export const KNOWN_FAILURES: readonly KnownFailure[] = [];

/** Whether the case is not sent. */
export function isKnownFailure(one: BodyCase): boolean {
  return KNOWN_FAILURES.some(({ matches }) => matches(one));
}
