import { assert } from "#base";

/**
 * Maps a list with at most `limit` calls, 1 or more, under way; results stand in the list's order.
 * Rejects with the first failure, and begins no further calls after it.
 */
export async function boundedMap<T, R>(
  list: readonly T[],
  limit: number,
  map: (item: T, place: number) => Promise<R>,
): Promise<R[]> {
  assert(limit >= 1, `Cannot map a list with at most ${limit} calls at once`);
  const results = new Array<R>(list.length);
  // All lanes draw from one iterator, so each item is taken once.
  const entries = list.entries();
  let failed = false;
  const lane = async () => {
    for (const [place, item] of entries) {
      if (failed) return;
      try {
        results[place] = await map(item, place);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, list.length) }, lane));
  return results;
}
