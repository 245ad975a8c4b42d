import { assert, intAt } from "#base";
import type { Device, DeviceTensor, KvPool } from "#devices";
import type { DraftContext, KvDraftNetwork, StepInput } from "#models";
import { type Drafter, type DraftSeed, type TokenTree, treeOf } from "#speculative";

/** A network with keys and values of its own, and where these are. */
export interface KvDrafterParts {
  readonly device: Device;
  readonly network: KvDraftNetwork;
  /**
   * The network's pool: blocks with the ids of the base's, then `scratchBlocks` for each sequence.
   */
  readonly cache: KvPool;
  /** Blocks that sequences have: the ids of later ones are in no table. */
  readonly blocks: number;
}

/**
 * Drafts by a network that has keys and values of its own. They are written in every step, whether
 * anything is drafted or not, so that each block is right for the network, too (SP13). What it
 * drafts beyond a sequence's tokens is written to scratch blocks that no table names (SP14):
 *
 *   table of a draft    [ full blocks of the sequence | scratch | scratch … ]
 *   positions                                          ^ first copied: the partly filled block
 */
export class KvDrafter implements Drafter {
  readonly #parts: KvDrafterParts;
  /** The newest step. Its arrays stay as they are until the next one is built. */
  #step: StepInput | null = null;

  constructor(parts: KvDrafterParts) {
    this.#parts = parts;
  }

  /** The pool, whose tokens move with the base's. */
  get cache(): KvPool {
    return this.#parts.cache;
  }

  /** Enqueues the network's keys and values of a step, behind the base's forward pass of it. */
  follow(step: StepInput, sampled: DeviceTensor): void {
    this.#step = step;
    this.#parts.network.fill(step, this.#parts.cache, sampled);
  }

  async draft(seeds: readonly DraftSeed[]): Promise<readonly TokenTree[]> {
    const { device, network, cache } = this.#parts;
    const copies: number[] = [];
    const contexts = seeds.map((seed, place) => this.#contextOf(seed, place, copies));
    if (copies.length > 0) device.copyBlocks(cache, Int32Array.from(copies));
    const chains = await network.chains(contexts, cache);
    return seeds.map(({ root }, place) => {
      const chain = chains[place];
      assert(chain !== undefined, "Cannot draft: the network left out a sequence");
      return treeOf(root, [chain], 1 + chain.length);
    });
  }

  /** Where a seed's chain is computed. Adds the copy of its partly filled block, from and to. */
  #contextOf(seed: DraftSeed, place: number, copies: number[]): DraftContext {
    const { root, rows, shape } = seed;
    const { network, blocks, cache } = this.#parts;
    const { blockTokens, blocksPerSequenceMax } = network.limits;
    const position = seed.position + rows.length;
    const row = rows.at(-1);
    const step = this.#step;
    const [tables] = step?.tables ?? [];
    assert(
      row !== undefined && step !== null && tables !== undefined,
      "Cannot draft behind no row of a step",
    );
    const first = sequenceOf(step, row) * blocksPerSequenceMax;
    const full = Math.floor(position / blockTokens);
    const scratch = scratchBlocks(network.limits);
    const start = blocks + place * scratch;
    assert(start + scratch <= cache.blocks, `Cannot draft for ${place + 1} sequences: no scratch`);
    const table = new Int32Array(full + scratch);
    table.set(tables.blockTables.subarray(first, first + full));
    for (let block = 0; block < scratch; block++) table[full + block] = start + block;
    if (position % blockTokens > 0) copies.push(intAt(tables.blockTables, first + full), start);
    return { row, root, position, length: shape.length, table };
  }
}

/** Blocks of one draft: of the tokens of a partly filled block, and of the longest chain. */
export function scratchBlocks(limits: {
  readonly blockTokens: number;
  readonly lengthMax: number;
}): number {
  return Math.ceil((limits.blockTokens - 1 + limits.lengthMax) / limits.blockTokens);
}

/** Which of a step's sequences a row belongs to. */
function sequenceOf({ queryStarts, sequences }: StepInput, row: number): number {
  let [low, high] = [0, sequences - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((queryStarts[middle] ?? 0) <= row) low = middle;
    else high = middle - 1;
  }
  return low;
}
