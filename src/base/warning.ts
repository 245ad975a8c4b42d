/**
 * The default of warnings without a listener: standard error, as Node's own warnings, so that `node
 * --no-warnings` and `process.on("warning")` apply to them, too.
 */
export function warnOnStandardError(message: string): void {
  process.emitWarning(message, "PerigeeWarning");
}
