import { intAt } from "#base";
import type { DeviceTensor, LateRead } from "#devices";

/** Elements of a level's tokens begin at multiples of this: copies of devices are aligned. */
const ALIGNMENT = 64;

/** Drafted tokens whose computation is enqueued. */
interface StartedTokens {
  /** [N] i32: the tokens, among others. Valid until the network drafts again. */
  readonly tokens: DeviceTensor;
  /** Elements of `tokens` from the first to the last that is one of them. */
  readonly count: number;
  /** All tokens of each chain or tree, when all enqueued work is done. To be called once. */
  take(): Promise<readonly Int32Array[]>;
}

/** Chains, one for each wish. */
export interface StartedChains extends StartedTokens {
  /** The element that is a chain's `place`-th drafted token, from 0 on. */
  placeOf(chain: number, place: number): number;
}

/** Trees, one for each wish, whose nodes are known before their tokens are. */
export interface StartedTrees extends StartedTokens {
  readonly nodes: readonly TreeNodes[];
  /** The element that is the token of a tree's node: 1, 2 and so on. */
  placeOf(tree: number, node: number): number;
}

/**
 * Nodes of a tree, the root included, which is node 0. Several may have the tokens of one path:
 * branches that are put beside each other from the root on begin alike where their tokens do.
 */
export interface TreeNodes {
  /** [N]: an earlier node; -1 of the root. */
  readonly parents: Int32Array;
  /** [N]: drafted tokens from the root to each. */
  readonly depths: Int32Array;
}

/** Trees whose tokens are the first elements of a tensor, which `read` reads. */
export function startedTrees(
  trees: Omit<StartedTrees, "take"> & { readonly read: LateRead },
): StartedTrees {
  const { read, nodes, placeOf } = trees;
  const take = async (): Promise<readonly Int32Array[]> => {
    const found = await read.take();
    return nodes.map(({ depths }, tree) => {
      // A loop: the step that verifies them waits, and `Int32Array.from` takes ten times as long.
      const tokens = new Int32Array(depths.length - 1);
      for (let at = 0; at < tokens.length; at++) tokens[at] = intAt(found, placeOf(tree, at + 1));
      return tokens;
    });
  };
  return { ...trees, take };
}

/** Elements from one level's tokens to what follows them. */
export function levelStride(rows: number): number {
  return Math.ceil(rows / ALIGNMENT) * ALIGNMENT;
}

const known = new Map<string, TreeNodes>();

/** Nodes of `width` branches of `length` tokens, one behind the other: `nodesMax` at most. */
export function branchNodes(
  { width, length }: { readonly width: number; readonly length: number },
  nodesMax: number,
): TreeNodes {
  const count = Math.min(nodesMax, 1 + width * length);
  const key = `${length} ${count}`;
  const found = known.get(key);
  if (found !== undefined) return found;
  const parents = Int32Array.from({ length: count }, (_, node) =>
    node % length === 1 || length === 1 ? 0 : node - 1,
  );
  const depths = Int32Array.from({ length: count }, (_, node) => ((node - 1) % length) + 1);
  parents[0] = -1;
  depths[0] = 0;
  const nodes = { parents, depths };
  known.set(key, nodes);
  return nodes;
}
