import type { WorkerBooks } from "#cluster/protocol";

/** What a worker has to do, as answers for operators have it. */
export function booksJson(books: WorkerBooks): object {
  const { requests, decoding, uncachedTokens, uncachedPairs, heldBlocks } = books;
  return {
    requests,
    decoding,
    uncached_tokens: uncachedTokens,
    uncached_pairs: uncachedPairs,
    held_blocks: heldBlocks,
  };
}
