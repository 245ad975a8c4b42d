// Gives the stand-in to whoever imports vitest: the machine with the GPU has no test runner. And
// the build's own files to whoever imports a file of src: compiled beside the contracts, it would
// be a second module, whose classes are not those of the engine that is tested.

const standIn = new URL("stand-in.mjs", import.meta.url).href;
const sources = new URL("../../../native/build/gpu-contracts/src/", import.meta.url).href;
const built = new URL("../../../dist/", import.meta.url).href;

/** Node's hook for module names. */
export async function resolve(specifier, context, next) {
  if (specifier === "vitest") return { url: standIn, shortCircuit: true };
  const found = await next(specifier, context);
  if (!found.url.startsWith(sources)) return found;
  return { ...found, url: built + found.url.slice(sources.length) };
}
