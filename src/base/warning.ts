/**
 * Where warnings go when a caller listens for none: to standard error, as Node's own do, so that
 * `node --no-warnings` and `process.on("warning")` have them, too.
 */
export function warnOnStandardError(message: string): void {
  process.emitWarning(message, "PerigeeWarning");
}
