import { assert, intAt, TREE_NODES_MAX } from "#base";
import type { Device, DeviceTensor, KvPool } from "#devices";
import {
  type BranchDraw,
  branchNodes,
  type DraftContext,
  type KvDraftNetwork,
  type StartedChains,
  type StartedTrees,
  type StepInput,
  seesAll,
} from "#models";
import { type Drafter, type DraftSeed, type LateTrees, type TokenTree, treeOf } from "#speculative";
import type { LateTokens } from "./late-tokens.ts";

/** A network with keys and values of its own, and where these are. */
export interface KvDrafterParts {
  readonly device: Device;
  readonly network: KvDraftNetwork;
  /**
   * The network's pool: blocks with the ids of the base's, then `scratchBlocks` for each chain.
   */
  readonly cache: KvPool;
  /** Blocks that sequences have: the ids of later ones are in no table. */
  readonly blocks: number;
  /** Where drafted tokens are put for the next step. Default: null, nowhere. */
  readonly late?: LateTokens | null;
}

/**
 * Drafts by a network that has keys and values of its own. They are written in every step, whether
 * anything is drafted or not, so that each block is right for the network, too (SP13). What it
 * drafts beyond a sequence's tokens is written to scratch blocks that no table names (SP14):
 *
 *   table of a draft    [ full blocks of the sequence | scratch | scratch … ]
 *   positions                                          ^ first copied: the partly filled block
 *
 * The first block is copied, too, where the network writes its first slot.
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
    const chains = await this.#start(seeds).take();
    let first = 0;
    return seeds.map(({ root, shape: { width } }) => {
      const own = chains.slice(first, first + width);
      first += width;
      return treeOf(root, own, TREE_NODES_MAX);
    });
  }

  late(seeds: readonly DraftSeed[]): LateTrees | null {
    const { late = null } = this.#parts;
    return late?.put(treesOf(seeds, this.#start(seeds))) ?? null;
  }

  /** Enqueues the chains of all seeds. */
  #start(seeds: readonly DraftSeed[]): StartedChains {
    const { device, network, cache } = this.#parts;
    const copies: number[] = [];
    const contexts: DraftContext[] = [];
    for (const seed of seeds) {
      for (let rank = 0; rank < seed.shape.width; rank++) {
        contexts.push(this.#contextOf(seed, { rank, place: contexts.length }, copies));
      }
    }
    if (copies.length > 0) device.copyBlocks(cache, Int32Array.from(copies));
    return network.chains(contexts, cache);
  }

  /** Where a chain is computed. Adds the copies of blocks that it needs, from and to. */
  #contextOf(
    seed: DraftSeed,
    { rank, place }: { readonly rank: number; readonly place: number },
    copies: number[],
  ): DraftContext {
    const { network, blocks, cache } = this.#parts;
    const {
      root,
      rows,
      position: before,
      shape: { length },
    } = seed;
    const { takesFirstSlot, limits } = network;
    const { blockTokens, blocksPerSequenceMax } = limits;
    const position = before + rows.length;
    const row = rows.at(-1);
    const step = this.#step;
    const [tables] = step?.tables ?? [];
    assert(
      row !== undefined && step !== null && tables !== undefined,
      "Cannot draft behind no row of a step",
    );
    const first = sequenceOf(step, row) * blocksPerSequenceMax;
    const full = Math.floor(position / blockTokens);
    const scratch = scratchBlocks({ ...limits, takesFirstSlot });
    const start = blocks + place * scratch;
    assert(start + scratch <= cache.blocks, `Cannot draft ${place + 1} chains: no scratch`);
    const table = new Int32Array(full + scratch);
    table.set(tables.blockTables.subarray(first, first + full));
    for (let block = 0; block < scratch; block++) table[full + block] = start + block;
    if (position % blockTokens > 0) copies.push(intAt(tables.blockTables, first + full), start);
    if (takesFirstSlot && full > 0 && seesAll(limits, position)) {
      table[0] = start + scratch - 1;
      copies.push(intAt(tables.blockTables, first), start + scratch - 1);
    }
    return { row, root, position, length, rank, draw: drawOf(seed), table };
  }
}

/** The chains of each seed beside each other, as one tree. */
function treesOf(seeds: readonly DraftSeed[], chains: StartedChains): StartedTrees {
  const firsts: number[] = [];
  let all = 0;
  for (const { shape } of seeds) {
    firsts.push(all);
    all += shape.width;
  }
  const nodes = seeds.map(({ shape }) => branchNodes(shape, TREE_NODES_MAX));
  const lengthOf = (tree: number): number => seeds[tree]?.shape.length ?? 1;
  return {
    ...{ tokens: chains.tokens, count: chains.count, nodes },
    placeOf: (tree, node) => {
      const length = lengthOf(tree);
      const chain = (firsts[tree] ?? 0) + Math.floor((node - 1) / length);
      return chains.placeOf(chain, (node - 1) % length);
    },
    take: async () => {
      const found = await chains.take();
      return nodes.map(({ depths }, tree) => {
        const [first, tokens] = [firsts[tree] ?? 0, new Int32Array(depths.length - 1)];
        const length = lengthOf(tree);
        for (let at = 0; at < tokens.length; at++) {
          tokens[at] = found[first + Math.floor(at / length)]?.[at % length] ?? 0;
        }
        return tokens;
      });
    },
  };
}

/**
 * How a sequence's drafted tokens are drawn: the root is behind the last of the seed's rows, and
 * the first drafted token behind the root. Null: greedily.
 */
export function drawOf({ sampling, position, rows }: DraftSeed): BranchDraw | null {
  return sampling === null ? null : { ...sampling, position: position + rows.length + 1 };
}

/** How much a drafter writes that belongs to no sequence. */
export interface ScratchSize {
  readonly blockTokens: number;
  readonly lengthMax: number;
  /** `KvDraftNetwork.takesFirstSlot`. */
  readonly takesFirstSlot: boolean;
}

/**
 * Blocks of one chain: of the tokens of a partly filled block and its own, and one in the
 * place of the sequence's first block.
 */
export function scratchBlocks({ blockTokens, lengthMax, takesFirstSlot }: ScratchSize): number {
  const behind = Math.ceil((blockTokens - 1 + lengthMax) / blockTokens);
  return takesFirstSlot ? behind + 1 : behind;
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
