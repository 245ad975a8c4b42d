/**
 * A bug of this project, as opposed to an error of the caller or the environment (`EngineError`).
 */
export class AssertionError extends Error {
  override readonly name = "AssertionError";
}

/**
 * Throws at a broken invariant. Never use it for input that a user or a file can make wrong.
 * `message`: a function where putting it together takes time and the check runs often.
 */
export function assert(condition: boolean, message: string | (() => string)): asserts condition {
  if (condition) return;
  throw new AssertionError(typeof message === "string" ? message : message());
}
