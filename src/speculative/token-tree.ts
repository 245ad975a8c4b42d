/** Drafted tokens as a tree: several continuations of one sequence, verified in one step. */
import { assert, intAt } from "#base";

/** Bits of a word of a tree mask. */
const WORD_BITS = 32;

/**
 * N nodes, each a token; node 0 is the root, the newest token of the sequence, which is no draft.
 * A node comes behind its parent, so that any number of leading nodes is a tree, too. A chain is
 * the tree in which every node follows the one before:
 *
 *   tokens   9  4  7  5      9 ─ 4 ─ 7
 *   parents -1  0  1  0        └ 5
 *   depths   0  1  2  1
 */
export interface TokenTree {
  /** [N]. */
  readonly tokens: Int32Array;
  /** [N]: index of each node's parent; -1 for the root. */
  readonly parents: Int32Array;
  /** [N]: drafted tokens from the root to each node. */
  readonly depths: Int32Array;
  /** Of a draft whose tokens the device knows before the host does. Default: the host knows. */
  readonly late?: LateNodes;
}

/** Where the device has the tokens of a draft. */
export interface LateNodes {
  /** [N - 1]: of each node behind the root, the index among the last sampled tokens. */
  readonly sources: Int32Array;
  /** Whether the host read them into `tokens`, which holds zeros until then. */
  known: boolean;
}

/** The tree of one continuation. */
export function chainOf(root: number, drafted: ArrayLike<number>): TokenTree {
  const nodes = drafted.length + 1;
  const tokens = new Int32Array(nodes);
  tokens[0] = root;
  tokens.set(drafted, 1);
  return { tokens, ...chainShape(nodes) };
}

/** Parents and depths of chains, by nodes: many sequences have one in each step. */
const chainShapes: Pick<TokenTree, "parents" | "depths">[] = [];

function chainShape(nodes: number): Pick<TokenTree, "parents" | "depths"> {
  const known = chainShapes[nodes];
  if (known !== undefined) return known;
  const shape = {
    parents: Int32Array.from({ length: nodes }, (_, node) => node - 1),
    depths: Int32Array.from({ length: nodes }, (_, node) => node),
  };
  chainShapes[nodes] = shape;
  return shape;
}

/**
 * The tree of several continuations, the likeliest first: what begins alike is one path. Nodes come
 * in the order of branches, so that accepting the first branch moves no key and no value. Nodes
 * beyond `nodesMax`, the root counted, are left out. Source: dynamic tree attention of ReDrafter
 * (Cheng et al. 2024).
 */
export function treeOf(
  root: number,
  branches: readonly ArrayLike<number>[],
  nodesMax: number,
): TokenTree {
  const tokens = [root];
  const parents = [-1];
  const depths = [0];
  for (const branch of branches) {
    let node = 0;
    for (let place = 0; place < branch.length; place++) {
      const token = branch[place] ?? 0;
      let child = childOf({ tokens, parents }, node, token);
      if (child < 0) {
        if (tokens.length >= nodesMax) break;
        child = tokens.push(token) - 1;
        parents.push(node);
        depths.push(place + 1);
      }
      node = child;
    }
  }
  return {
    tokens: Int32Array.from(tokens),
    parents: Int32Array.from(parents),
    depths: Int32Array.from(depths),
  };
}

/** The child of a node that has a token; -1: none has. */
function childOf(
  { tokens, parents }: { readonly tokens: readonly number[]; readonly parents: readonly number[] },
  node: number,
  token: number,
): number {
  for (let child = node + 1; child < tokens.length; child++) {
    if (parents[child] === node && tokens[child] === token) return child;
  }
  return -1;
}

/** Whether every node follows the one before, in the first `nodes` nodes. */
export function isChain({ parents }: TokenTree, nodes: number = parents.length): boolean {
  for (let node = 0; node < nodes; node++) if (parents[node] !== node - 1) return false;
  return true;
}

/** Drafted tokens of a tree's first branch, whose nodes come right behind the root. */
export function firstBranchTokens({ parents }: TokenTree): number {
  let tokens = 0;
  while (parents[tokens + 1] === tokens) tokens++;
  return tokens;
}

/** Checks the order of nodes. Throws an AssertionError for a tree that no drafter may make. */
export function checkTree({ tokens, parents, depths }: TokenTree): void {
  const { length } = tokens;
  assert(
    length > 0 && length === parents.length && length === depths.length,
    "A tree needs a root",
  );
  assert(parents[0] === -1 && depths[0] === 0, "The root of a tree has no parent");
  for (let node = 1; node < length; node++) {
    const parent = intAt(parents, node);
    assert(parent >= 0 && parent < node, "A node of a tree comes behind its parent");
    assert(depths[node] === intAt(depths, parent) + 1, "A node is one deeper than its parent");
  }
}

/** The drafted tokens from the root to a node, its own included. */
export function pathTo({ tokens, parents, depths }: TokenTree, node: number): Int32Array {
  const path = new Int32Array(intAt(depths, node));
  let at = node;
  for (let place = path.length - 1; place >= 0; place--) {
    path[place] = intAt(tokens, at);
    at = intAt(parents, at);
  }
  return path;
}

/**
 * Sets the bits of the nodes that each of the first `nodes` nodes must not see: those before it
 * that are no ancestors of it. `mask`: [rows, words], zeros; node n has row `firstRow` + n, and bit
 * n in the others' rows.
 */
export function hideBranches(
  { parents }: TokenTree,
  nodes: number,
  mask: Uint32Array,
  { firstRow, words }: TreeRows,
): void {
  for (let node = 1; node < nodes; node++) {
    let ancestor = intAt(parents, node);
    for (let other = node - 1; other >= 0; other--) {
      if (other === ancestor) {
        ancestor = intAt(parents, other);
        continue;
      }
      const word = (firstRow + node) * words + Math.floor(other / WORD_BITS);
      mask[word] = (mask[word] ?? 0) | (1 << (other % WORD_BITS));
    }
  }
}

/** Where the rows of a tree are in a mask. */
export interface TreeRows {
  readonly firstRow: number;
  readonly words: number;
}

/**
 * The path that sampled tokens confirm, from the root on: `sampled(node)` is the token sampled
 * behind a node, null where none may be read. The walk goes on with the child that has this token,
 * among the first `nodes` nodes: the first of several nodes that stand for the same tokens, whose
 * children are those of all of them. Every node of the path emits its sampled token, so the output
 * is that of a run without drafts, whatever the tree.
 */
export function confirmedPath(
  { tokens, parents, depths }: TokenTree,
  nodes: number,
  sampled: (node: number) => number | null,
): number[] {
  const path = [0];
  // Whether a node stands for the tokens of the path up to its depth.
  const isOn = new Uint8Array(nodes);
  isOn[0] = 1;
  let end = Number.POSITIVE_INFINITY;
  for (let child = 1; child < nodes; child++) {
    // Children come behind their parent, so one pass finds the whole path.
    const [parent = 0, depth = 1] = [parents[child], depths[child]];
    if (isOn[parent] === 0 || depth >= end) continue;
    const before = path[depth - 1] ?? parent;
    if (tokens[child] !== sampled(before)) continue;
    if (depth < path.length) isOn[child] = 1;
    else if (sampled(child) === null) end = depth;
    else {
      isOn[child] = 1;
      path.push(child);
    }
  }
  return path;
}
