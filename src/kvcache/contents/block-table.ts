import { assert, IntList, intAt } from "#base";
import { type BlockId, blockId } from "./block-id.ts";
import type { ContentKeys } from "./content-keys.ts";
import { Occupation } from "./occupation.ts";
import type { NodeId } from "./prefix-tree.ts";
import { groupScope } from "./scope.ts";

/**
 * The block table of one sequence, in position order. It holds each block except those that fell
 * out of the window. `KvCache` fills and empties it; other modules only read.
 *
 * Where a model's layers are in several groups, this is the first group's table, and `parts` has
 * those of all groups. They are equally long; which blocks they hold, and how much of them is
 * published, may differ.
 */
export class BlockTable {
  /** Sharing scope: tables of different scopes never hold the same block. */
  readonly scope: string;
  /** Identity of its contents beside tokens; null: none. */
  readonly keys: ContentKeys | null;
  /** How long it held how many blocks of the device, since it was made. */
  readonly occupation: Occupation;
  readonly ids: IntList = new IntList();
  /** Leading blocks that were published, including those that fell out of the window. */
  publishedBlocks = 0;
  /** The last published block's node in the index; null before the first. */
  tip: NodeId | null = null;
  /** Distinguishes the tip's contents from later ones of the same node. */
  tipSerial = 0;
  /** Blocks from `droppedFrom` up to `droppedTo` are not held any more: no query sees them. */
  droppedFrom = 0;
  droppedTo = 0;
  /** Part of the prefix was evicted or dropped: no further block can be published. */
  broken = false;
  /** The ids are host blocks: the sequence is swapped out. */
  swapped = false;
  #parts: readonly BlockTable[] = [this];

  constructor(scope = "", keys: ContentKeys | null = null, occupation = new Occupation()) {
    this.scope = scope;
    this.keys = keys;
    this.occupation = occupation;
  }

  /** The tables of all groups of layers, this one first. */
  get parts(): readonly BlockTable[] {
    return this.#parts;
  }

  /** Makes a part for each of `groups` groups. Called while the table is empty. */
  divide(groups: number): void {
    assert(this.length === 0, "Cannot divide a table that has blocks");
    this.#parts = Array.from({ length: groups }, (_, group) =>
      group === 0 ? this : new BlockTable(groupScope(this.scope, group), this.keys),
    );
  }

  /** Blocks, those that fell out of the window included. */
  get length(): number {
    return this.ids.length;
  }

  /** The block of positions `index * blockTokens` and up. */
  get(index: number): BlockId {
    return blockId(this.ids.get(index));
  }

  /** Whether the table holds its block at `index`. */
  holds(index: number): boolean {
    return index < this.droppedFrom || index >= this.droppedTo;
  }

  /** All ids, without a copy; valid until the table changes. */
  view(): Int32Array {
    return this.ids.view();
  }

  /** Copies another table's state, except its blocks, which the caller shares. */
  follow(other: BlockTable): void {
    this.publishedBlocks = other.publishedBlocks;
    this.tip = other.tip;
    this.tipSerial = other.tipSerial;
    this.droppedFrom = other.droppedFrom;
    this.droppedTo = other.droppedTo;
    this.broken = other.broken;
    this.swapped = other.swapped;
  }

  /** Empties the table; its blocks must be released before. */
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
