import { IntList, intAt } from "#base";
import { type BlockId, blockId } from "./block-id.ts";
import type { ContentKeys } from "./content-keys.ts";
import type { NodeId } from "./prefix-tree.ts";

/**
 * The blocks of one sequence, in position order. It counts as a holder of each, but for those that
 * fell out of the window. Filled and emptied by `KvCache`; everyone else reads.
 */
export class BlockTable {
  /** Whose cached prefixes may be shared: tables of different scopes never hold the same block. */
  readonly scope: string;
  /** What tells its contents apart beside tokens; null: nothing. */
  readonly keys: ContentKeys | null;
  readonly ids: IntList = new IntList();
  /** Leading blocks that others can find, or could before they fell out of the window. */
  publishedBlocks = 0;
  /** The last published block's place in the index; null before the first. */
  tip: NodeId | null = null;
  /** Tells the tip's contents from later ones in the same place. */
  tipSerial = 0;
  /** Places from `droppedFrom` up to `droppedTo` are not held any more: no query sees them. */
  droppedFrom = 0;
  droppedTo = 0;
  /** Something before the last published block was evicted: nothing more can be published. */
  broken = false;
  /** The ids are host blocks: the sequence's contents were moved out of the device. */
  swapped = false;

  constructor(scope = "", keys: ContentKeys | null = null) {
    this.scope = scope;
    this.keys = keys;
  }

  /** Blocks, those that fell out of the window included. */
  get length(): number {
    return this.ids.length;
  }

  /** The block of positions `index * blockTokens` and up. */
  get(index: number): BlockId {
    return blockId(this.ids.get(index));
  }

  /** Whether the table is a holder of its block at `index`. */
  holds(index: number): boolean {
    return index < this.droppedFrom || index >= this.droppedTo;
  }

  /** All ids, without a copy; valid until the table changes. */
  view(): Int32Array {
    return this.ids.view();
  }

  /** Stands where another table stands; its blocks are the caller's to share. */
  follow(other: BlockTable): void {
    this.publishedBlocks = other.publishedBlocks;
    this.tip = other.tip;
    this.tipSerial = other.tipSerial;
    this.droppedFrom = other.droppedFrom;
    this.droppedTo = other.droppedTo;
    this.broken = other.broken;
    this.swapped = other.swapped;
  }

  /** As new; the blocks must be given back before. */
  reset(): void {
    this.ids.clear();
    this.publishedBlocks = 0;
    this.tip = null;
    this.tipSerial = 0;
    this.droppedFrom = 0;
    this.droppedTo = 0;
    this.broken = false;
    this.swapped = false;
  }

  /** Writes all ids to `target` from `offset` on. */
  copyTo(target: Int32Array, offset: number): void {
    const ids = this.ids.view();
    for (let index = 0; index < ids.length; index++) target[offset + index] = intAt(ids, index);
  }
}
