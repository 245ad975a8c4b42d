/**
 * A text in its smallest parts, each a sentence, a line or, of very long ones, some words. They
 * follow each other without a gap; white space belongs to the part before it.
 */

/** What ends an atom: the larger, the better a chunk ends there. */
export const PARAGRAPH = 3;
export const LINE = 2;
export const SENTENCE = 1;
export const WORD = 0;

/** A part of a text, up to the next one or the text's end. */
export interface Atom {
  /** UTF-16 units from the text's start. */
  readonly start: number;
  readonly end: number;
  /** What ends it: PARAGRAPH, LINE, SENTENCE or WORD. */
  readonly rank: number;
}

/** Longest atom, in UTF-16 units without the white space after it. */
const LENGTH_MAX = 400;
/** Shorter lines and sentences stay with the next one: each atom costs a count of its tokens. */
const LENGTH_MIN = 80;

const NEWLINE = 10;
const SENTENCE_ENDS = new Set([..."。！？．…।؟"].map((mark) => mark.charCodeAt(0)));
const CLOSERS = new Set([..."\"')]}»”’"].map((mark) => mark.charCodeAt(0)));

/** All atoms of a text, in order; none of an empty one. Takes time linear in its length. */
export function atomsOf(text: string): Atom[] {
  const atoms: Atom[] = [];
  let start = 0;
  while (start < text.length) {
    const atom = nextAtom(text, start);
    atoms.push(atom);
    start = atom.end;
  }
  return atoms;
}

function nextAtom(text: string, start: number): Atom {
  let lastSpace = -1;
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (isSpace(code)) {
      const end = spacesEnd(text, at);
      const rank = rankOf(text, start, at, end);
      const isLong = at - start >= LENGTH_MIN;
      if (rank === PARAGRAPH || (rank > WORD && isLong)) return { start, end, rank };
      lastSpace = end;
      at = end - 1;
    } else if (SENTENCE_ENDS.has(code) && at - start >= LENGTH_MIN) {
      const end = spacesEnd(text, closersEnd(text, at + 1));
      return { start, end, rank: SENTENCE };
    }
    if (at - start >= LENGTH_MAX) {
      const end = lastSpace > start ? lastSpace : wholeCharacter(text, start, at);
      return { start, end, rank: WORD };
    }
  }
  return { start, end: text.length, rank: PARAGRAPH };
}

/** What the white space from `at` to `end` means, after the text from `start`. */
function rankOf(text: string, start: number, at: number, end: number): number {
  let newlines = 0;
  for (let place = at; place < end; place++) if (text.charCodeAt(place) === NEWLINE) newlines++;
  if (newlines > 0) return newlines > 1 ? PARAGRAPH : LINE;
  let last = at - 1;
  while (last > start && CLOSERS.has(text.charCodeAt(last))) last--;
  const mark = text[last];
  return mark === "." || mark === "!" || mark === "?" ? SENTENCE : WORD;
}

function spacesEnd(text: string, from: number): number {
  let at = from;
  while (at < text.length && isSpace(text.charCodeAt(at))) at++;
  // The indentation of the next line belongs to that line.
  let line = at;
  while (line > from && text.charCodeAt(line - 1) !== NEWLINE) line--;
  return line > from && at < text.length ? line : at;
}

function closersEnd(text: string, from: number): number {
  let at = from;
  while (at < text.length && CLOSERS.has(text.charCodeAt(at))) at++;
  return at;
}

/** Marks that change the character before them, halves of pairs and joiners. */
const CONTINUES = /^(?:\p{M}|\u200d|[\udc00-\udfff])$/u;

/** The last place up to `at` where no character is torn; `at` where there is none near. */
function wholeCharacter(text: string, start: number, at: number): number {
  for (let place = at; place > Math.max(start, at - 32); place--) {
    const isInside = CONTINUES.test(text[place] ?? "") || text[place - 1] === "\u200d";
    if (!isInside) return place;
  }
  return isLowSurrogate(text, at) ? at - 1 : at;
}

/** Whether a cut at `at` would tear a pair of surrogates. */
export function isLowSurrogate(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff;
}

/** As `\s` of regular expressions. */
function isSpace(code: number): boolean {
  if (code <= 32) return code === 32 || (code >= 9 && code <= 13);
  if (code < 160) return false;
  return (
    code === 160 || code === 0xfeff || (code >= 0x1680 && /\s/.test(String.fromCharCode(code)))
  );
}
