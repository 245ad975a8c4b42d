/**
 * Lets go of something whose owner may have broken, as a grammar's library does when it runs out of
 * memory. Never throws: what is left goes with the owner, and nobody waits for it.
 */
export function disposeOf(owner: { dispose(): void } | null): void {
  try {
    owner?.dispose();
  } catch {
    // Told already by the call that broke it.
  }
}
