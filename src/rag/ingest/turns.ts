import { setImmediate } from "node:timers/promises";

/** Lets other work of the thread run: promises alone never give way to it. */
export function otherWork(): Promise<void> {
  return setImmediate();
}

/** The results for all items, in order, with other work of the thread between parts of them. */
export async function mappedInTurns<Item, Result>(
  items: readonly Item[],
  map: (item: Item, index: number) => Result,
): Promise<Result[]> {
  const results: Result[] = [];
  for (const [index, item] of items.entries()) {
    results.push(map(item, index));
    if (index % ITEMS === ITEMS - 1) await otherWork();
  }
  return results;
}

/** Items of a part: some milliseconds of hashing. */
const ITEMS = 256;
