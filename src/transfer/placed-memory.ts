import { assert } from "#base";
import type { ForeignRange, PlacedMemory, PlacedRange } from "./contract.ts";
import { type Segment, type SharedMemory, segmentOf, sharedMemory } from "./shared-memory.ts";

/** Longest description. */
export const DESCRIPTION_BYTES_MAX = 65_536;

/** Memory whose description readers find in shared memory. */
export class DescribedMemory implements PlacedMemory {
  readonly bytes: number;
  readonly description: string;
  readonly #shared: SharedMemory;
  readonly #segment: Segment | null;

  constructor(description: string, bytes: number) {
    const text = Buffer.from(description);
    const fits = text.byteLength > 0 && text.byteLength <= DESCRIPTION_BYTES_MAX;
    assert(fits, `Cannot describe memory in ${text.byteLength} bytes`);
    this.bytes = bytes;
    this.description = description;
    this.#shared = sharedMemory(text.byteLength);
    this.#shared.memory.set(text);
    this.#segment = segmentOf(this.#shared.memory);
  }

  /** Where the description is; null: other processes cannot be told. */
  get segment(): Segment | null {
    return this.#segment;
  }

  release(): void {
    this.#shared.release();
  }
}

/**
 * Makes memory known that readers copy from with what `description` says. The description travels
 * in shared memory: the system lets processes of the same user alone read it, so that it may be all
 * that is needed to reach the memory.
 */
export function placedMemory(description: string, bytes: number): PlacedMemory {
  return new DescribedMemory(description, bytes);
}

/** The memory of a range that this room made. */
export function describedMemory({ memory }: PlacedRange): DescribedMemory {
  assert(memory instanceof DescribedMemory, "Cannot offer memory that was not placed");
  return memory;
}

/** The same as seen by a reader of this process. */
export function foreignRanges(ranges: readonly PlacedRange[]): readonly ForeignRange[] {
  return ranges.map((range) => {
    const { description, bytes: memoryBytes } = describedMemory(range);
    return { description, memoryBytes, offset: range.offset, bytes: range.bytes };
  });
}
