import { IntList, intAt } from "#base";
import { type BlockId, blockId } from "./block-id.ts";
import type { NodeId } from "./prefix-tree.ts";

/**
 * The blocks of one sequence, in position order. It counts as a holder of each. Filled and emptied
 * by `KvCache`; everyone else reads.
 */
export class BlockTable {
  /** Whose cached prefixes may be shared: tables of different scopes never hold the same block. */
  readonly scope: string;
  readonly ids: IntList = new IntList();
  /** Leading blocks that others can find. */
  publishedBlocks = 0;
  /** The last published block's place in the index; null before the first. */
  tip: NodeId | null = null;

  constructor(scope = "") {
    this.scope = scope;
  }

  get length(): number {
    return this.ids.length;
  }

  /** The block of positions `index * blockTokens` and up. */
  get(index: number): BlockId {
    return blockId(this.ids.get(index));
  }

  /** All ids, without a copy; valid until the table changes. */
  view(): Int32Array {
    return this.ids.view();
  }

  /** Writes all ids to `target` from `offset` on. */
  copyTo(target: Int32Array, offset: number): void {
    const ids = this.ids.view();
    for (let index = 0; index < ids.length; index++) target[offset + index] = intAt(ids, index);
  }
}
