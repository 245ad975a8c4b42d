import { assert, TREE_NODES_MAX } from "#base";
import type { Decoder, DraftNetwork } from "#models";
import {
  type AheadSeed,
  type Drafter,
  type DraftSeed,
  type LateTrees,
  type TokenTree,
  treeOf,
} from "#speculative";
import { drawOf } from "./kv-drafter.ts";
import type { LateTokens } from "./late-tokens.ts";
import type { TreeAcceptance } from "./tree-acceptance.ts";

/** What drafts from hidden states of the newest step. */
export interface RowDrafterParts {
  readonly decoder: Pick<Decoder, "hidden" | "hiddenAt">;
  readonly network: Pick<DraftNetwork, "branches" | "trees">;
  /** Where drafted tokens are put for the next step. Default: null, nowhere. */
  readonly late?: LateTokens | null;
  /** Accepts trees before the host does. Default: null, the host does. */
  readonly acceptance?: TreeAcceptance | null;
}

/**
 * Drafts by a network that reads one hidden state of each sequence: that of the row that gave the
 * root. All sequences are drafted for at once.
 */
export class RowDrafter implements Drafter {
  readonly #parts: RowDrafterParts;

  constructor(parts: RowDrafterParts) {
    this.#parts = parts;
  }

  async draft(seeds: readonly DraftSeed[]): Promise<readonly TokenTree[]> {
    const { network } = this.#parts;
    const found = await network.branches(...this.#inputOf(seeds));
    return seeds.map(({ root }, place) => treeOf(root, found[place] ?? [], TREE_NODES_MAX));
  }

  late(seeds: readonly DraftSeed[]): LateTrees | null {
    const { network, late = null, acceptance = null } = this.#parts;
    // Where nothing begins ahead, fewer nodes count for more: the host puts what begins alike on
    // one path.
    if (acceptance === null && seeds.some(({ shape }) => shape.width > 1)) return null;
    return late?.put(network.trees(...this.#inputOf(seeds))) ?? null;
  }

  ahead(seeds: readonly AheadSeed[]): LateTrees | null {
    const { decoder, network, late = null, acceptance = null } = this.#parts;
    if (late === null || acceptance === null) return null;
    const { rows, ...roots } = acceptance.accept(seeds);
    const hidden = decoder.hiddenAt(rows, seeds.length);
    // Positions are those of the device.
    const wishes = seeds.map(({ shape, sampling }) => ({
      ...shape,
      draw: sampling === null ? null : { ...sampling, position: 0 },
    }));
    return late.put(network.trees(hidden, roots, wishes));
  }

  #inputOf(seeds: readonly DraftSeed[]): Parameters<DraftNetwork["branches"]> {
    const rows = Int32Array.from(seeds, lastRow);
    const roots = Int32Array.from(seeds, ({ root }) => root);
    const wishes = seeds.map((seed) => ({ ...seed.shape, draw: drawOf(seed) }));
    return [this.#parts.decoder.hidden(rows), roots, wishes];
  }
}

function lastRow({ rows }: DraftSeed): number {
  const row = rows.at(-1);
  assert(row !== undefined, "Cannot draft behind no row");
  return row;
}
