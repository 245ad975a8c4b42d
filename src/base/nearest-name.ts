/** The name that was probably meant: edit distance (Damerau, 1964; optimal string alignment). */

/** Names up to this share of their length away are taken for a slip. */
const SLIP_SHARE = 0.4;
/** Longer texts are no slip of any name of ours. */
const LENGTH_MAX = 80;

/** The closest of `names`; null: none is close. */
export function nearestName(text: string, names: Iterable<string>): string | null {
  const wanted = plain(text);
  if (wanted.length > LENGTH_MAX) return null;
  let best: string | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const name of names) {
    const distance = editDistance(wanted, plain(name));
    if (distance < least) [best, least] = [name, distance];
  }
  return best !== null && least <= Math.max(1, best.length * SLIP_SHARE) ? best : null;
}

/** `kvPoolBytes`, `KV_POOL_BYTES` and `--kv-pool-bytes` are one name. */
function plain(name: string): string {
  return name
    .slice(0, 2 * LENGTH_MAX)
    .replace(/([a-z0-9])([A-Z])/g, "$1-$2")
    .toLowerCase()
    .replaceAll("_", "-")
    .replace(/^-+/, "");
}

function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      let cost = Math.min(
        (last[column - 1] ?? 0) + (same ? 0 : 1),
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
      );
      const swapped = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (swapped) cost = Math.min(cost, (beforeLast[column - 2] ?? 0) + 1);
      current.push(cost);
    }
    [beforeLast, last] = [last, current];
  }
  return last[b.length] ?? 0;
}
