/** What stands around and between two texts that a model reads together. */
export interface PairFrame {
  readonly before: readonly number[];
  readonly between: readonly number[];
  readonly after: readonly number[];
  /** Tokens of the second text, and those behind it, are of type 1. */
  readonly typed: boolean;
}

/** A pair as a tokenizer encodes it, with and without special tokens. */
export interface EncodedPair {
  readonly framed: readonly number[];
  /** [framed], where the tokenizer has types. */
  readonly types: readonly number[] | null;
  readonly first: readonly number[];
  readonly second: readonly number[];
}

/** The frame around two texts, found in one pair of them; null: the pair is not in it. */
export function pairFrameOf({ framed, types, first, second }: EncodedPair): PairFrame | null {
  const start = placeOf(framed, first, 0);
  if (start === null) return null;
  const next = placeOf(framed, second, start + first.length);
  if (next === null) return null;
  return {
    before: framed.slice(0, start),
    between: framed.slice(start + first.length, next),
    after: framed.slice(next + second.length),
    typed: types?.[next] === 1,
  };
}

/** Where `part` stands in `whole`, from `from` on. */
function placeOf(whole: readonly number[], part: readonly number[], from: number): number | null {
  for (let start = from; start + part.length <= whole.length; start++) {
    if (part.every((id, i) => whole[start + i] === id)) return start;
  }
  return null;
}
