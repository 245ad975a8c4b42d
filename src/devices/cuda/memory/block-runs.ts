import { at } from "#tensor";

/** Cuts a list [n, 2] (from, to) into runs of blocks that lie side by side on both sides. */
export function* runsOf(pairs: Int32Array): Generator<{ from: number; to: number; count: number }> {
  for (let i = 0; i < pairs.length; ) {
    const [from, to] = [at(pairs, i), at(pairs, i + 1)];
    let count = 1;
    while (
      i + 2 * count < pairs.length &&
      at(pairs, i + 2 * count) === from + count &&
      at(pairs, i + 2 * count + 1) === to + count
    ) {
      count++;
    }
    yield { from, to, count };
    i += 2 * count;
  }
}
