// Gives the stand-in to whoever imports vitest: the machine with the GPU has no test runner.

const standIn = new URL("stand-in.mjs", import.meta.url).href;

/** Node's hook for module names. */
export function resolve(specifier, context, next) {
  if (specifier === "vitest") return { url: standIn, shortCircuit: true };
  return next(specifier, context);
}
