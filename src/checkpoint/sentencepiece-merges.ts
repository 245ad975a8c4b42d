/**
 * The merges of a SentencePiece BPE vocabulary. The vocabulary keeps a score for each piece instead
 * of a list of merges: any two pieces that join to a third may merge, higher scores first.
 */

/**
 * All merges, the first to be applied first. Ties are broken by longer parts first, so that the
 * order does not depend on the runtime.
 */
export function sentencePieceMerges(
  tokens: readonly string[],
  scores: readonly number[],
): [left: string, right: string][] {
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const merges: { pair: [string, string]; score: number; order: number }[] = [];
  for (const [token, id] of ids) {
    if (isByte(token)) continue;
    for (const pair of splits(token, ids)) {
      merges.push({ pair, score: scores[id] ?? 0, order: merges.length });
    }
  }
  merges.sort(
    (a, b) =>
      b.score - a.score ||
      b.pair[0].length - a.pair[0].length ||
      b.pair[1].length - a.pair[1].length ||
      a.order - b.order,
  );
  return merges.map((merge) => merge.pair);
}

/** Every way to cut a piece into two known ones, between characters. */
function* splits(
  token: string,
  ids: ReadonlyMap<string, number>,
): Generator<[left: string, right: string]> {
  let at = 0;
  for (const character of token) {
    if (at > 0) {
      const left = token.slice(0, at);
      const right = token.slice(at);
      if (ids.has(left) && ids.has(right)) yield [left, right];
    }
    at += character.length;
  }
}

/** `<0x0A>` stands for a byte that no piece covers, and is never made by merging. */
function isByte(token: string): boolean {
  return /^<0x[0-9A-F]{2}>$/.test(token);
}
