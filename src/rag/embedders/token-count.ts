import type { TextCodec } from "#engine";

/** Characters of a text that are encoded at once. */
const COUNTED_UNITS = 64 * 2 ** 10;

/** Tokens of whole texts of any length, special tokens included. */
export async function countWith(
  codec: TextCodec,
  texts: readonly string[],
  signal: AbortSignal | undefined,
): Promise<number[]> {
  signal?.throwIfAborted();
  const pieces = texts.map(piecesOf);
  const lists = await codec.encodeAll(pieces.flat(), {
    addSpecialTokens: false,
    ...(signal && { signal }),
  });
  const { before, after } = codec.frame;
  let place = 0;
  return pieces.map(({ length }) => {
    const own = lists.slice(place, place + length);
    place += length;
    return own.reduce((sum, ids) => sum + ids.length, before.length + after.length);
  });
}

/** A text in pieces that end before white space, where that is near. */
function piecesOf(text: string): string[] {
  const pieces: string[] = [];
  let rest = text;
  while (rest.length > COUNTED_UNITS) {
    const space = rest.lastIndexOf(" ", COUNTED_UNITS);
    const end = Math.max(space, rest.lastIndexOf("\n", COUNTED_UNITS));
    const cut = end > COUNTED_UNITS / 2 ? end : COUNTED_UNITS;
    pieces.push(rest.slice(0, cut));
    rest = rest.slice(cut);
  }
  pieces.push(rest);
  return pieces;
}
