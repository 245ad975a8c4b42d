/**
 * Finds the child that shares the longest beginning with some tokens: a crit-bit tree per parent,
 * over the bits of the children's contents (D. J. Bernstein 2004, "Crit-bit trees"; after D. R.
 * Morrison 1968, "PATRICIA"). A branch stands for the first bit in which the children below it
 * differ, so a walk reads one bit per branch and compares no tokens, and the child where it ends is
 * that child: one comparison answers the exact search and the partial one. The shape follows from
 * the contents alone: nothing is balanced, randomised or hashed.
 *
 * A walk passes about log2(children) branches where tokens differ at random, and never more than
 * there are bits in a block. An only child needs no branch.
 *
 * The compared bits, in order: 32 bits of the number of the extra key; then for each token a bit
 * for its presence, and its 32 bits. So no contents are the beginning of others, although blocks
 * may be partial.
 */
import { assert, intAt } from "#base";
import { NumberPool } from "./number-pool.ts";

/** A child's search key: an extra key's number, and `count` tokens from `start` on. */
export interface SiblingKey {
  readonly extra: number;
  readonly tokens: Int32Array;
  readonly start: number;
  readonly count: number;
}

/** No child, or no bit. */
export const NONE = -1;

// Positions of bits: 64 for the extra key and for each token, of which 33 are used.
const POSITION_SHIFT = 6;
const POSITION_MASK = 63;
const WORD_BITS = 32;

// A branch's record.
const BRANCH_STRIDE = 4;
/** Position of the first bit in which the children below differ. */
const POSITION = 0;
/** The link for bit 0; the link for bit 1 is behind it. */
const ZERO = 1;
/** The sum of a branch's two sides: a side from it is the other one. */
const BOTH_SIDES = ZERO + (ZERO + 1);

/**
 * The branches of all parents. A parent keeps one link to its children: `NONE`; or a node's number,
 * an only child; or a branch, as a number below `NONE`. Links change as children come and go.
 */
export class SiblingOrder {
  readonly #branches: Int32Array;
  readonly #unused: NumberPool = new NumberPool();

  /** Room for `nodes` children in all; branches are fewer. */
  constructor(nodes: number) {
    this.#branches = new Int32Array(nodes * BRANCH_STRIDE);
  }

  /** The child that shares the longest beginning with `key`; `link` must have one. */
  nearest(link: number, key: SiblingKey): number {
    let at = link;
    while (at < NONE) {
      const branch = branchOf(at);
      at = this.#get(branch, ZERO + bitAt(key, this.#get(branch, POSITION)));
    }
    return at;
  }

  /**
   * Adds `node`, whose contents `key` differ from those of its nearest sibling first at `position`
   * (`firstDifference`; anything for an only child). Returns the parent's new link.
   */
  add(link: number, node: number, key: SiblingKey, position: number): number {
    if (link === NONE) return node;
    let at = link;
    let above = NONE;
    let side = ZERO;
    while (at < NONE && this.#get(branchOf(at), POSITION) < position) {
      above = branchOf(at);
      side = ZERO + bitAt(key, this.#get(above, POSITION));
      at = this.#get(above, side);
    }
    const branch = this.#unused.take();
    const own = ZERO + bitAt(key, position);
    this.#set(branch, POSITION, position);
    this.#set(branch, own, node);
    this.#set(branch, BOTH_SIDES - own, at);
    if (above === NONE) return linkTo(branch);
    this.#set(above, side, linkTo(branch));
    return link;
  }

  /** Removes the child with the contents `key`, which must exist. Returns the new link. */
  remove(link: number, key: SiblingKey): number {
    if (link >= 0) return NONE;
    let branch = branchOf(link);
    let side = ZERO + bitAt(key, this.#get(branch, POSITION));
    let above = NONE;
    let aboveSide = ZERO;
    for (let at = this.#get(branch, side); at < NONE; at = this.#get(branch, side)) {
      above = branch;
      aboveSide = side;
      branch = branchOf(at);
      side = ZERO + bitAt(key, this.#get(branch, POSITION));
    }
    // The other side replaces the branch: no other child is left to distinguish here.
    const other = this.#get(branch, BOTH_SIDES - side);
    this.#unused.give(branch);
    if (above === NONE) return other;
    this.#set(above, aboveSide, other);
    return link;
  }

  /** One of the children, the first in the order of the bits; `link` must have one. */
  first(link: number): number {
    let at = link;
    while (at < NONE) at = this.#get(branchOf(at), ZERO);
    return at;
  }

  /** The two links of the branch of `link`, one per bit value; null for an only child. */
  parts(link: number): readonly [number, number] | null {
    if (link >= NONE) return null;
    const branch = branchOf(link);
    return [this.#get(branch, ZERO), this.#get(branch, ZERO + 1)];
  }

  /** Forgets all branches: no link is valid any more. */
  clear(): void {
    this.#unused.clear();
  }

  #get(branch: number, field: number): number {
    return intAt(this.#branches, branch * BRANCH_STRIDE + field);
  }

  #set(branch: number, field: number, value: number): void {
    this.#branches[branch * BRANCH_STRIDE + field] = value;
  }
}

/** The position of the first bit in which the keys differ; `NONE` for equal ones. */
export function firstDifference(a: SiblingKey, b: SiblingKey): number {
  if (a.extra !== b.extra) return positionOf(0, a.extra ^ b.extra);
  const tokens = commonTokens(a, b);
  if (tokens < a.count && tokens < b.count) {
    const ofA = intAt(a.tokens, a.start + tokens);
    return positionOf(tokens + 1, ofA ^ intAt(b.tokens, b.start + tokens));
  }
  return a.count === b.count ? NONE : (tokens + 1) << POSITION_SHIFT;
}

/** Leading tokens that two keys have in common, whatever their extra keys. */
export function commonTokens(a: SiblingKey, b: SiblingKey): number {
  const most = Math.min(a.count, b.count);
  let count = 0;
  while (count < most && intAt(a.tokens, a.start + count) === intAt(b.tokens, b.start + count)) {
    count++;
  }
  return count;
}

/** Position of the highest bit of `difference`, in the word at `index`. */
function positionOf(index: number, difference: number): number {
  assert(difference !== 0, "Cannot tell equal contents apart");
  return (index << POSITION_SHIFT) + 1 + Math.clz32(difference);
}

/** The key's bit at `position`; 0 behind its end, where no branch depends on it. */
function bitAt(key: SiblingKey, position: number): number {
  const index = position >>> POSITION_SHIFT;
  if (index > key.count) return 0;
  const offset = position & POSITION_MASK;
  if (offset === 0) return 1;
  const word = index === 0 ? key.extra : intAt(key.tokens, key.start + index - 1);
  return (word >>> (WORD_BITS - offset)) & 1;
}

function branchOf(link: number): number {
  return NONE - 1 - link;
}

function linkTo(branch: number): number {
  return NONE - 1 - branch;
}
