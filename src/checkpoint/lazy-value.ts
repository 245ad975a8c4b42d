/** Computes the value on the first call and caches it; after a throw the next call tries again. */
export function lazyValue<T>(compute: () => T): () => T {
  let known: { readonly value: T } | null = null;
  return () => {
    known ??= { value: compute() };
    return known.value;
  };
}
