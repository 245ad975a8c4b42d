/** What routers tell each other of what their pools were asked: JSON, by name of a group. */
import { isPlainObject } from "#base";
import type { PoolLoad } from "#cluster/conductor";

const GROUPS_MAX = 64;
/** More of anything is no fleet's. */
const AMOUNT_MAX = 1e12;

export function writeLoads(loads: ReadonlyMap<string, PoolLoad>): string {
  return JSON.stringify(Object.fromEntries([...loads].slice(0, GROUPS_MAX)));
}

/** What is not as it must be is left out: it is another version's, or a stranger's. */
export function readLoads(text: string): ReadonlyMap<string, PoolLoad> {
  const found = new Map<string, PoolLoad>();
  const value = parsed(text);
  if (!isPlainObject(value)) return found;
  for (const [group, told] of Object.entries(value).slice(0, GROUPS_MAX)) {
    const load = readLoad(told);
    if (load !== null) found.set(group, load);
  }
  return found;
}

function readLoad(value: unknown): PoolLoad | null {
  if (!isPlainObject(value)) return null;
  const { spanMs, asked, taken, promptWork, decoding, decodingTokens, growth, lateMs } = value;
  const amounts = [spanMs, asked, taken, promptWork, decoding, decodingTokens, lateMs];
  if (!amounts.every((amount) => isNumber(amount) && amount >= 0) || !isNumber(growth)) return null;
  const [span = 0, came = 0, took = 0, work = 0, count = 0, tokens = 0, late = 0] =
    amounts.filter(isNumber);
  return {
    ...{ spanMs: span, asked: came, taken: took, promptWork: work },
    ...{ decoding: count, decodingTokens: tokens, growth, lateMs: late },
  };
}

function isNumber(value: unknown): value is number {
  return typeof value === "number" && Math.abs(value) <= AMOUNT_MAX;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
