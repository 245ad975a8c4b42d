import { assert } from "#base";
import { TREE_NODES_MAX } from "#engine/loop";
import type { Decoder, DraftNetwork } from "#models";
import {
  type AheadSeed,
  type Drafter,
  type DraftSeed,
  type LateChains,
  type TokenTree,
  treeOf,
} from "#speculative";
import type { ChainAcceptance } from "./chain-acceptance.ts";
import { drawOf } from "./kv-drafter.ts";
import type { LateTokens } from "./late-tokens.ts";

/** What drafts from hidden states of the newest step. */
export interface RowDrafterParts {
  readonly decoder: Pick<Decoder, "hidden" | "hiddenAt">;
  readonly network: Pick<DraftNetwork, "branches" | "chains">;
  /** Where drafted tokens are put for the next step. Default: null, nowhere. */
  readonly late?: LateTokens | null;
  /** Accepts chains before the host does. Default: null, the host does. */
  readonly acceptance?: ChainAcceptance | null;
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

  ahead(seeds: readonly AheadSeed[]): LateChains | null {
    const { decoder, network, late = null, acceptance = null } = this.#parts;
    const { chains } = network;
    if (late === null || acceptance === null || chains === undefined) return null;
    if (seeds.some(({ shape }) => shape.width > 1)) return null;
    const { rows, ...roots } = acceptance.accept(seeds);
    const hidden = decoder.hiddenAt(rows, seeds.length);
    // Positions are those of the device.
    const wishes = seeds.map(({ shape, sampling }) => ({
      ...shape,
      draw: sampling === null ? null : { ...sampling, position: 0 },
    }));
    return late.put(chains.call(network, hidden, roots, wishes));
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
