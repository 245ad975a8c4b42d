import { intAt } from "#base";
import type { BlockPlace } from "./block-place.ts";
import { NameNumbers } from "./name-numbers.ts";
import type { SiblingKey } from "./sibling-order.ts";

// A node's row: its tokens lie behind two integers, so that comparing reads one place in memory.
const HEAD = 2;
/** Number of tokens; 0 for a node that is not in use. */
const COUNT = 0;
/** The number of the extra key; `NO_EXTRA` without. */
const EXTRA = 1;
const NO_EXTRA = 0;

/** The contents of each node: tokens, at most a block of them, and an extra key, which few have. */
export class NodeContents {
  readonly #blockTokens: number;
  /** [nodes, HEAD + blockTokens] */
  readonly #rows: Int32Array;
  /** Numbers from 0 up; rows store them plus 1, since 0 means no extra key. */
  readonly #extras: NameNumbers = new NameNumbers();

  /** Empty rows for the nodes 0 up to `nodes`. */
  constructor(nodes: number, blockTokens: number) {
    this.#blockTokens = blockTokens;
    this.#rows = new Int32Array(nodes * (HEAD + blockTokens));
  }

  /** Extra keys that at least one node has. */
  get extraCount(): number {
    return this.#extras.count;
  }

  /** Copies a place's tokens, at most `blockTokens`, and its extra key into a node's row. */
  write(node: number, place: BlockPlace): void {
    const { tokens, start, extra = "", count = this.#blockTokens } = place;
    const rows = this.#rows;
    const row = this.#row(node);
    rows[row + COUNT] = count;
    rows[row + EXTRA] = extra === "" ? NO_EXTRA : this.#extras.retain(extra) + 1;
    for (let offset = 0; offset < count; offset++) {
      rows[row + HEAD + offset] = intAt(tokens, start + offset);
    }
  }

  /** Clears the row of a removed node and releases its extra key. */
  erase(node: number): void {
    const row = this.#row(node);
    const extra = intAt(this.#rows, row + EXTRA);
    if (extra !== NO_EXTRA) this.#extras.release(extra - 1);
    this.#rows[row + COUNT] = 0;
    this.#rows[row + EXTRA] = NO_EXTRA;
  }

  /** Forgets all, in a pass over all nodes. */
  clear(): void {
    this.#rows.fill(0);
    this.#extras.clear();
  }

  /** The search key of a place; null with an extra key that no node has. */
  keyAt({ tokens, start, count = this.#blockTokens, extra = "" }: BlockPlace): SiblingKey | null {
    if (extra === "") return { extra: NO_EXTRA, tokens, start, count };
    const known = this.#extras.find(extra);
    return known === null ? null : { extra: known + 1, tokens, start, count };
  }

  /** A node's contents, without a copy. */
  keyOf(node: number): SiblingKey {
    const row = this.#row(node);
    return {
      extra: intAt(this.#rows, row + EXTRA),
      tokens: this.#rows,
      start: row + HEAD,
      count: intAt(this.#rows, row + COUNT),
    };
  }

  /** Whether a node has exactly these contents. */
  equals(node: number, { extra, tokens, start, count }: SiblingKey): boolean {
    const rows = this.#rows;
    const row = this.#row(node);
    if (rows[row + COUNT] !== count || rows[row + EXTRA] !== extra) return false;
    for (let offset = 0; offset < count; offset++) {
      if (intAt(rows, row + HEAD + offset) !== intAt(tokens, start + offset)) return false;
    }
    return true;
  }

  /** Number of a node's tokens; 0 for a node that is not in use. */
  lengthOf(node: number): number {
    return intAt(this.#rows, this.#row(node) + COUNT);
  }

  /** [lengthOf] without a copy. */
  tokensOf(node: number): Int32Array {
    const start = this.#row(node) + HEAD;
    return this.#rows.subarray(start, start + this.lengthOf(node));
  }

  /** Whether a node has an extra key. */
  hasExtra(node: number): boolean {
    return this.#rows[this.#row(node) + EXTRA] !== NO_EXTRA;
  }

  /** A node's extra key; "" without. */
  extraOf(node: number): string {
    const extra = intAt(this.#rows, this.#row(node) + EXTRA);
    return extra === NO_EXTRA ? "" : this.#extras.nameOf(extra - 1);
  }

  #row(node: number): number {
    return node * (HEAD + this.#blockTokens);
  }
}
