/** Made-up tokens under masks, bans and biases, as a model's logits would be edited. */
import type { RowEdits } from "#sampling";
import { type MockVocabulary, mockToken, type TokenPlace } from "./mock-tokens.ts";

/** What may stand in place of a forbidden token. */
export interface EditLimits {
  readonly vocabulary: MockVocabulary;
  readonly endTokenIds: readonly number[];
  readonly vocabularySize: number;
}

/** A row, and the edits that it is part of. */
export interface EditedRow {
  readonly edits: RowEdits;
  /** Among the rows of the edits. */
  readonly row: number;
  readonly place: TokenPlace;
  readonly limits: EditLimits;
}

/** A bias of this much decides: made-up logits are all alike. */
const DECISIVE_BIAS = 20;
const TRIES = 8;
/** Seeds of further tries, and of the choice to end where a grammar allows it. */
const TRY_SEED = 0x2545f491;

/** The token, or one in its place that the row's edits allow; any where they allow none. */
export function withinEdits(token: number, edited: EditedRow): number {
  const { place, limits } = edited;
  const wanted = favoured(edited);
  if (wanted !== null) return wanted;
  const ending = limits.endTokenIds.find((id) => isMasked(edited) && isAllowed(id, edited));
  // Half of the chances to end a constrained output are taken: a grammar may go on for ever.
  if (ending !== undefined && coin(edited)) return ending;
  if (isAllowed(token, edited)) return token;
  const endless = { ...limits.vocabulary, endTokenId: null };
  for (let attempt = 1; attempt <= TRIES; attempt++) {
    const other = mockToken(endless, { ...place, seedHigh: place.seedHigh ^ (TRY_SEED * attempt) });
    if (isAllowed(other, edited)) return other;
  }
  return scan(edited) ?? token;
}

/** The first token with a bias that no other token's chances reach; null: there is none. */
function favoured(edited: EditedRow): number | null {
  const { edits, row } = edited;
  for (let at = edits.starts[row] ?? 0; at < (edits.starts[row + 1] ?? 0); at++) {
    const id = edits.tokens[at] ?? 0;
    if ((edits.biases[at] ?? 0) >= DECISIVE_BIAS && isAllowed(id, edited)) return id;
  }
  return null;
}

function isMasked({ edits, row }: EditedRow): boolean {
  return edits.masks !== null && edits.masks.rows[row] === 1;
}

function isAllowed(id: number, edited: EditedRow): boolean {
  const { edits, row, limits } = edited;
  if (edits.masks !== null && isMasked(edited)) {
    const words = Math.ceil(limits.vocabularySize / 32);
    const word = edits.masks.allowed[row * words + (id >>> 5)] ?? 0;
    if (((word >>> (id & 31)) & 1) === 0) return false;
  }
  for (let at = edits.starts[row] ?? 0; at < (edits.starts[row + 1] ?? 0); at++) {
    if (edits.tokens[at] === id) return (edits.biases[at] ?? 0) > -DECISIVE_BIAS;
  }
  return true;
}

function coin({ place, limits }: EditedRow): boolean {
  const seedHigh = place.seedHigh ^ TRY_SEED;
  return mockToken({ ...limits.vocabulary, endTokenId: null }, { ...place, seedHigh }) % 2 === 0;
}

/** The next allowed id behind one that the place chooses; null: there is none. */
function scan(edited: EditedRow): number | null {
  const { vocabularySize } = edited.limits;
  const first = (edited.place.position * 0x9e37 + edited.place.previous) % vocabularySize;
  for (let step = 0; step < vocabularySize; step++) {
    const id = (first + step) % vocabularySize;
    if (isAllowed(id, edited)) return id;
  }
  return null;
}
