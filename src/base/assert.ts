/** Our own bug, as opposed to a caller's mistake or the world's failure (`EngineError`). */
export class AssertionError extends Error {
  override readonly name = "AssertionError";
}

/** Stops at a broken invariant. Never use it for input that a user or a file can make wrong. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}
