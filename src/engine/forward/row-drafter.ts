import { assert } from "#base";
import { TREE_NODES_MAX } from "#engine/loop";
import type { Decoder, ReDrafter } from "#models";
import { type Drafter, type DraftSeed, type TokenTree, treeOf } from "#speculative";

/** What drafts from hidden states of the newest step. */
export interface RowDrafterParts {
  readonly decoder: Pick<Decoder, "hidden">;
  readonly network: Pick<ReDrafter, "draft">;
}

/**
 * Drafts by a network that reads one hidden state of each sequence: that of the row that gave the
 * root. All sequences are drafted for at once, at the largest of their shapes.
 */
export class RowDrafter implements Drafter {
  readonly #parts: RowDrafterParts;

  constructor(parts: RowDrafterParts) {
    this.#parts = parts;
  }

  async draft(seeds: readonly DraftSeed[]): Promise<readonly TokenTree[]> {
    const { decoder, network } = this.#parts;
    const rows = Int32Array.from(seeds, lastRow);
    const roots = Int32Array.from(seeds, ({ root }) => root);
    const width = Math.max(...seeds.map(({ shape }) => shape.width));
    const length = Math.max(...seeds.map(({ shape }) => shape.length));
    const beams = await network.draft(decoder.hidden(rows), roots, { width, length });
    return seeds.map(({ root, shape }, place) => {
      const own = (beams[place] ?? []).slice(0, shape.width);
      const branches = own.map((beam) => beam.subarray(0, shape.length));
      return treeOf(root, branches, TREE_NODES_MAX);
    });
  }
}

function lastRow({ rows }: DraftSeed): number {
  const row = rows.at(-1);
  assert(row !== undefined, "Cannot draft behind no row");
  return row;
}
