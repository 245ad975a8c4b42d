import type { PairFrame } from "#tokenizer";

/** Two texts as a model reads them. */
export interface PairIds {
  readonly ids: Int32Array<ArrayBuffer>;
  /** Tokens from here on are of type 1; absent: all are of type 0. */
  readonly secondFrom?: number;
}

/**
 * Two encoded texts in their frame, at most `tokensMax` tokens. Of longer pairs the longer text is
 * cut, then both alike: `longest_first` of Hugging Face's tokenizers. Null: the frame alone is
 * longer.
 */
export function pairIds(
  first: ArrayLike<number>,
  second: ArrayLike<number>,
  { frame, tokensMax }: { readonly frame: PairFrame; readonly tokensMax: number },
): PairIds | null {
  const { before, between, after, typed } = frame;
  const room = tokensMax - before.length - between.length - after.length;
  if (room < 0) return null;
  const [one, two] = lengthsWithin(first.length, second.length, room);
  const ids = new Int32Array(tokensMax - room + one + two);
  ids.set(before);
  ids.set(
    Array.from({ length: one }, (_, i) => first[i] ?? 0),
    before.length,
  );
  const middle = before.length + one;
  ids.set(between, middle);
  const secondFrom = middle + between.length;
  ids.set(
    Array.from({ length: two }, (_, i) => second[i] ?? 0),
    secondFrom,
  );
  ids.set(after, secondFrom + two);
  return typed ? { ids, secondFrom } : { ids };
}

/** How many tokens of each text are kept of `room`. */
function lengthsWithin(first: number, second: number, room: number): [number, number] {
  if (first + second <= room) return [first, second];
  const short = Math.min(first, second);
  const long = Math.max(short, room - short);
  const fits = short <= room && short + long <= room;
  const [less, more] = fits
    ? [short, long]
    : [Math.floor(room / 2), Math.floor(room / 2) + (room % 2)];
  return first > second ? [more, less] : [less, more];
}
