/** Orders of results, and the fusion of two of them. */

/** What was found, by its id. */
export interface Ranked {
  readonly id: string;
  /** Larger is better. */
  readonly score: number;
}

/** Reciprocal rank fusion (Cormack, Clarke, Büttcher, 2009) and its constant there. */
const RANK_OFFSET = 60;
const LIST_LENGTH_MIN = 50;
const LIST_LENGTH_MAX = 1000;
const LISTED_PER_RESULT = 3;

/** Best first; ties by id. */
export function byRank(one: Ranked, other: Ranked): number {
  return other.score - one.score || byText(one.id, other.id);
}

/** The order of texts by UTF-16 units, which does not depend on a language. */
export function byText(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}

/** How long each list is that is fused to `limit` results. */
export function listLength(limit: number): number {
  const wanted = Math.max(LIST_LENGTH_MIN, LISTED_PER_RESULT * limit);
  return Math.max(limit, Math.min(LIST_LENGTH_MAX, wanted));
}

/** One list of several, each best first: the sum of 1 / (60 + rank), ranks from 1. */
export function fuse(lists: readonly (readonly Ranked[])[], limit: number): Ranked[] {
  const scores = new Map<string, number>();
  for (const list of lists) {
    list.forEach(({ id }, place) => {
      scores.set(id, (scores.get(id) ?? 0) + 1 / (RANK_OFFSET + place + 1));
    });
  }
  const fused = [...scores].map(([id, score]) => ({ id, score }));
  return fused.sort(byRank).slice(0, limit);
}
