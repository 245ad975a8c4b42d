/**
 * A document is cut into pieces that an embedder takes whole. Tokens are the embedder's own: of
 * atoms first, many at a time, and then of each piece, since tokens of parts do not always add up.
 */
import type { ChunkPlace, Section, SourceDocument } from "#rag/texts";
import { type Atom, atomsOf, isLowSurrogate } from "./atoms.ts";
import { pack, SPAN_LENGTH_MAX, type Span } from "./packing.ts";
import { passageOf } from "./passage.ts";

/** Counts tokens of texts, with special tokens and prompts: `Embedder.countTokens`. */
export type CountTokens = (texts: readonly string[]) => Promise<readonly number[]>;

/** How documents are cut. */
export interface ChunkLimits {
  /** Most tokens of a piece with its headings, its special tokens and its prompt. */
  readonly chunkTokens: number;
  /** Most tokens of text that a piece repeats of the one before it, in the same section. */
  readonly overlapTokens: number;
}

/** A chunk to be, without its document's name and version. */
export interface Piece {
  readonly text: string;
  readonly place: ChunkPlace;
  /** Whether its vector is made below its headings, which may take half of a chunk at most. */
  readonly isHeaded: boolean;
  /** The section of its document, from 0, and its first unit in the section's text. */
  readonly section: number;
  readonly start: number;
}

/** Texts and characters that are counted in one call. */
const COUNTED_TEXTS = 512;
const COUNTED_LENGTH = 2 ** 17;
/** Longer tokens, in UTF-16 units, are not expected of ordinary text. */
const TOKEN_LENGTH = 6;
const EMPTY: Section = { text: "", line: null, page: null, headings: [] };

/** Pieces of a document, in order. */
export async function cutDocument(
  document: SourceDocument,
  limits: ChunkLimits,
  countTokens: CountTokens,
): Promise<Piece[]> {
  const [pieces = []] = await new Chunker(limits, countTokens).cut([document]);
  return pieces;
}

/** Cuts documents, several at a time, since each call that counts tokens may be one of a server. */
export class Chunker {
  readonly #limits: ChunkLimits;
  readonly #count: CountTokens;
  /** Tokens of an empty text: special ones and the prompt; null: not counted yet. */
  #overhead: number | null = null;

  constructor(limits: ChunkLimits, countTokens: CountTokens) {
    this.#limits = limits;
    this.#count = countedInParts(countTokens);
  }

  /** Pieces of each document, in order. Other work of the thread runs meanwhile. */
  async cut(documents: readonly SourceDocument[]): Promise<Piece[][]> {
    const [overhead = 0] = this.#overhead === null ? await this.#count([""]) : [this.#overhead];
    this.#overhead = overhead;
    const cutter = new Cutter(this.#limits, this.#count, overhead);
    const sections = documents.flatMap((document) => document.sections);
    const pieces: Piece[] = [];
    for (const group of groupsOf(sections)) {
      for (const piece of await cutter.cut(sections, group)) pieces.push(piece);
    }
    return byDocument(documents, pieces);
  }
}

/** Pieces of the sections of all documents, by document, with the sections of its own counted. */
function byDocument(documents: readonly SourceDocument[], pieces: readonly Piece[]): Piece[][] {
  let first = 0;
  let at = 0;
  return documents.map(({ sections }) => {
    const own: Piece[] = [];
    for (; at < pieces.length; at++) {
      const piece = pieces[at];
      if (piece === undefined || piece.section >= first + sections.length) break;
      own.push(first === 0 ? piece : { ...piece, section: piece.section - first });
    }
    first += sections.length;
    return own;
  });
}

/** Consecutive sections that are cut together, so that short ones do not cost a count each. */
function* groupsOf(sections: readonly Section[]): Generator<readonly number[]> {
  let group: number[] = [];
  let length = 0;
  for (const [index, { text }] of sections.entries()) {
    group.push(index);
    length += text.length;
    if (length < COUNTED_LENGTH && group.length < COUNTED_TEXTS) continue;
    yield group;
    group = [];
    length = 0;
  }
  if (group.length > 0) yield group;
}

/** A span of a section, with what the section's pieces have in common. */
interface Candidate extends Span {
  readonly section: number;
  readonly text: string;
  readonly headings: readonly string[];
}

class Cutter {
  readonly #limits: ChunkLimits;
  readonly #count: CountTokens;
  /** Tokens of an empty text: special ones and the prompt. */
  readonly #overhead: number;

  constructor(limits: ChunkLimits, count: CountTokens, overhead: number) {
    this.#limits = limits;
    this.#count = count;
    this.#overhead = overhead;
  }

  async cut(sections: readonly Section[], group: readonly number[]): Promise<Piece[]> {
    const whole = await this.#wholeOnes(sections, group);
    const places = new Set(whole.map(({ section }) => section));
    const parts = await this.#parts(
      sections,
      group.filter((index) => !places.has(index)),
    );
    return piecesOf([...whole, ...parts].sort(inOrder), sections);
  }

  /** Sections that fit as they are, by a single count. */
  async #wholeOnes(sections: readonly Section[], group: readonly number[]): Promise<Candidate[]> {
    const { chunkTokens } = this.#limits;
    const candidates = group.flatMap((index) => {
      const { text, headings } = sections[index] ?? EMPTY;
      const span = trimmed(text, { start: 0, end: text.length });
      // Tokens of more characters each are rare, and those sections are only counted twice.
      const lengthMax = Math.min(SPAN_LENGTH_MAX, chunkTokens * TOKEN_LENGTH);
      const isShort = span.start < span.end && text.length <= lengthMax;
      return isShort ? [{ ...span, section: index, text, headings }] : [];
    });
    const tokens = await this.#count(candidates.map(passageOfCandidate));
    return candidates.filter((_, at) => (tokens[at] ?? 0) <= chunkTokens);
  }

  async #parts(sections: readonly Section[], group: readonly number[]): Promise<Candidate[]> {
    const candidates: Candidate[] = [];
    const prefixes = group.map((index) => passageOf("", sections[index]?.headings ?? []));
    const atoms = group.map((index) => atomsOf(sections[index]?.text ?? ""));
    const texts = group.flatMap((index, at) =>
      textsOf(sections[index]?.text ?? "", atoms[at] ?? []),
    );
    const tokens = await this.#count([...prefixes, ...texts]);
    let next = group.length;
    for (const [at, index] of group.entries()) {
      const own = atoms[at] ?? [];
      const counts = tokens.slice(next, next + own.length).map((count) => count - this.#overhead);
      next += own.length;
      candidates.push(...this.#spans(index, sections[index], own, counts, tokens[at] ?? 0));
    }
    return this.#fit(candidates);
  }

  #spans(
    index: number,
    section: Section | undefined,
    atoms: readonly Atom[],
    counts: readonly number[],
    prefixTokens: number,
  ): Candidate[] {
    if (section === undefined) return [];
    const { chunkTokens, overlapTokens } = this.#limits;
    // Headings that would take half of a chunk are left out of what its vector is made of.
    const hasHeadings = (prefixTokens - this.#overhead) * 2 <= chunkTokens;
    const headings = hasHeadings ? section.headings : [];
    const taken = hasHeadings ? prefixTokens : this.#overhead;
    const budget = { tokens: Math.max(1, chunkTokens - taken), overlapTokens };
    return pack(atoms, counts, budget)
      .map((span) => trimmed(section.text, span))
      .filter(({ start, end }) => start < end)
      .map((span) => ({ ...span, section: index, text: section.text, headings }));
  }

  /** Halves what is too long, until all fits or is a single character. */
  async #fit(candidates: readonly Candidate[]): Promise<Candidate[]> {
    const tokens = await this.#count(candidates.map(passageOfCandidate));
    const fitting: Candidate[] = [];
    const long: { readonly place: number; readonly halves: readonly Candidate[] }[] = [];
    for (const [at, candidate] of candidates.entries()) {
      const halves = (tokens[at] ?? 0) > this.#limits.chunkTokens ? halvesOf(candidate) : [];
      if (halves.length > 0) long.push({ place: fitting.length, halves });
      else fitting.push(candidate);
    }
    if (long.length === 0) return fitting;
    const parts = await this.#fit(long.flatMap(({ halves }) => halves));
    return [...fitting, ...parts].sort(inOrder);
  }
}

function inOrder(one: Candidate, other: Candidate): number {
  return one.section - other.section || one.start - other.start || one.end - other.end;
}

function passageOfCandidate({ text, start, end, headings }: Candidate): string {
  return passageOf(text.slice(start, end), headings);
}

/** Two parts, split at the atom nearest to the middle, or at the middle; none of one character. */
function halvesOf(candidate: Candidate): Candidate[] {
  const { text, start, end } = candidate;
  const own = text.slice(start, end);
  const half = own.length / 2;
  let middle = 0;
  for (const { end: atom } of atomsOf(own)) {
    if (atom < own.length && Math.abs(atom - half) < Math.abs(middle - half)) middle = atom;
  }
  if (middle === 0) middle = Math.floor(half);
  if (isLowSurrogate(own, middle)) middle--;
  if (middle === 0) return [];
  return [
    { ...candidate, ...trimmed(text, { start, end: start + middle }) },
    { ...candidate, ...trimmed(text, { start: start + middle, end }) },
  ].filter((part) => part.start < part.end);
}

/** Without blank lines before and white space after; the first line keeps its indentation. */
function trimmed(text: string, { start, end }: Span): Span {
  const own = text.slice(start, end);
  const blank = own.length - own.trimStart().length;
  const line = own.lastIndexOf("\n", blank - 1) + 1;
  return { start: start + (blank === 0 ? 0 : line), end: start + own.trimEnd().length };
}

function textsOf(text: string, atoms: readonly Atom[]): string[] {
  return atoms.map(({ start, end }) => text.slice(start, end));
}

function piecesOf(candidates: readonly Candidate[], sections: readonly Section[]): Piece[] {
  const pieces: Piece[] = [];
  let counted = { section: -1, at: 0, line: 1 };
  for (const { section: index, start, end, text, headings } of candidates) {
    const section = sections[index];
    if (section === undefined) continue;
    if (counted.section !== index) counted = { section: index, at: 0, line: section.line ?? 1 };
    counted.line += newlines(text, counted.at, start);
    counted.at = start;
    const place: ChunkPlace = {
      lines: linesOf(section, counted.line, counted.line + newlines(text, start, end)),
      page: section.page,
      headings: section.headings,
    };
    const isHeaded = headings.length > 0;
    pieces.push({ text: text.slice(start, end), place, isHeaded, section: index, start });
  }
  return pieces;
}

function linesOf(section: Section, first: number, last: number): [number, number] | null {
  if (section.line === null) return null;
  return section.lastLine === undefined ? [first, last] : [section.line, section.lastLine];
}

function newlines(text: string, from: number, to: number): number {
  let count = 0;
  for (let at = from; at < to; at++) if (text.charCodeAt(at) === 10) count++;
  return count;
}

/** Counts in calls of bounded size; between them other work of the thread runs. */
function countedInParts(countTokens: CountTokens): CountTokens {
  return async (texts) => {
    const counts: number[] = [];
    for (let from = 0; from < texts.length; ) {
      let to = from;
      let length = 0;
      while (to < texts.length && to - from < COUNTED_TEXTS && length < COUNTED_LENGTH) {
        length += texts[to++]?.length ?? 0;
      }
      counts.push(...(await countTokens(texts.slice(from, to))));
      await new Promise((resolve) => setImmediate(resolve));
      from = to;
    }
    return counts;
  };
}
