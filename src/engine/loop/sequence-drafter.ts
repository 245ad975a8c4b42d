import type { Sequence } from "#scheduler";
import { DraftLength, type Lookup } from "#speculative";

/** Drafts the tokens of one sequence, and remembers how well that went. */
export class SequenceDrafter {
  readonly #lookup: Lookup;
  readonly #length: DraftLength;
  #finds = false;

  constructor(lookup: Lookup, lengthMax: number) {
    this.#lookup = lookup;
    this.#length = new DraftLength(lengthMax);
  }

  /** Whether the next step may have a draft: it is planned when all tokens are known. */
  get active(): boolean {
    return this.#finds;
  }

  /** Tokens behind the sequence's newest one; null: none are likely. */
  next({ tokens }: Sequence): Int32Array | null {
    const most = this.#length.next();
    const found = most === 0 ? null : this.#lookup.draft(tokens, most);
    this.#finds = found !== null;
    return found;
  }

  verified(drafted: number, accepted: number): void {
    this.#length.verified(drafted, accepted);
  }
}
