import { EngineError } from "./errors.ts";

/**
 * Options of a call must be an object: JavaScript callers may pass null, which is no way to leave
 * them out. Throws INVALID_ARGUMENT.
 */
export function requireOptions(options: unknown, param = "options"): void {
  if (typeof options === "object" && options !== null && !Array.isArray(options)) return;
  const current = Array.isArray(options) ? "an array" : kindOf(options);
  const wanted = `must be an object, current value is ${current}; leave it out`;
  throw new EngineError("INVALID_ARGUMENT", `Cannot use ${param}: ${wanted}`, { param });
}

function kindOf(value: unknown): string {
  return value === null || value === undefined ? String(value) : `a ${typeof value}`;
}
