/**
 * Disposes of an object that may be broken, as a grammar's library is after it ran out of memory.
 * Never throws: remaining memory is freed with the owner, and no caller depends on it.
 */
export function disposeOf(owner: { dispose(): void } | null): void {
  try {
    owner?.dispose();
  } catch {
    // Already reported by the call that broke it.
  }
}
