import { transferLibrary } from "./native/library.ts";
import { addressOf } from "./native/range-table.ts";
import { addRegion } from "./regions.ts";

/**
 * Lets networks' libraries reach memory of so many bytes, which `first` begins: for memory that is
 * not shared, such as pinned one. The result ends that, and comes before the memory is released.
 */
export function exposeMemory(first: Uint8Array, bytes: number): () => void {
  const library = transferLibrary();
  return library === null ? () => {} : addRegion(addressOf(library, first), bytes);
}
