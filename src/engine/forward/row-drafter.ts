import { assert } from "#base";
import { TREE_NODES_MAX } from "#engine/loop";
import type { Decoder, DraftNetwork } from "#models";
import {
  type Drafter,
  type DraftSeed,
  type LateChains,
  type TokenTree,
  treeOf,
} from "#speculative";
import { drawOf } from "./kv-drafter.ts";
import type { LateTokens } from "./late-tokens.ts";

/** What drafts from hidden states of the newest step. */
export interface RowDrafterParts {
  readonly decoder: Pick<Decoder, "hidden">;
  readonly network: Pick<DraftNetwork, "branches" | "chains">;
  /** Where drafted tokens are put for the next step. Default: null, nowhere. */
  readonly late?: LateTokens | null;
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

  chains(seeds: readonly DraftSeed[]): LateChains | null {
    const { network, late = null } = this.#parts;
    const { chains } = network;
    if (late === null || chains === undefined) return null;
    if (seeds.some(({ shape }) => shape.width > 1)) return null;
    return late.put(chains.call(network, ...this.#inputOf(seeds)));
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
