/**
 * A bug of this project, as opposed to an error of the caller or the environment (`EngineError`).
 */
export class AssertionError extends Error {
  override readonly name = "AssertionError";
}

/** Throws at a broken invariant. Never use it for input that a user or a file can make wrong. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}
