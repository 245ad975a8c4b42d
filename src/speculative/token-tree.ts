/** Drafted tokens as a tree: several continuations of one sequence, verified in one step. */
import { assert, intAt } from "#base";

/**
 * N nodes, each a token; node 0 is the root, the newest token of the sequence, which is no draft.
 * A node comes behind its parent, so that any number of leading nodes is a tree, too. A chain is
 * the tree in which every node follows the one before:
 *
 *   tokens   9  4  7  5      9 ─ 4 ─ 7
 *   parents -1  0  1  0        └ 5
 */
export interface TokenTree {
  /** [N]. */
  readonly tokens: Int32Array;
  /** [N]: index of each node's parent; -1 for the root. */
  readonly parents: Int32Array;
}

/** The tree of one continuation. */
export function chainOf(root: number, drafted: ArrayLike<number>): TokenTree {
  const nodes = drafted.length + 1;
  const tokens = new Int32Array(nodes);
  tokens[0] = root;
  tokens.set(drafted, 1);
  return { tokens, parents: Int32Array.from({ length: nodes }, (_, node) => node - 1) };
}

/** Whether every node follows the one before, in the first `nodes` nodes. */
export function isChain({ parents }: TokenTree, nodes: number = parents.length): boolean {
  for (let node = 0; node < nodes; node++) if (parents[node] !== node - 1) return false;
  return true;
}

/** Checks the order of nodes. Throws an AssertionError for a tree that no drafter may make. */
export function checkTree({ tokens, parents }: TokenTree): void {
  assert(tokens.length > 0 && tokens.length === parents.length, "A tree needs a root");
  assert(parents[0] === -1, "The root of a tree has no parent");
  for (let node = 1; node < parents.length; node++) {
    const parent = intAt(parents, node);
    assert(parent >= 0 && parent < node, "A node of a tree comes behind its parent");
  }
}

/**
 * The path that sampled tokens confirm, from the root on: `sampled(node)` is the token sampled
 * behind a node, null where none may be read. The walk goes on with the child that has this token,
 * among the first `nodes` nodes. Every node of the path emits its sampled token, so the output is
 * that of a run without drafts, whatever the tree.
 */
export function confirmedPath(
  { tokens, parents }: TokenTree,
  nodes: number,
  sampled: (node: number) => number | null,
): number[] {
  const path = [0];
  let node = 0;
  for (let child = 1; child < nodes; child++) {
    // Children come behind their parent, so one pass finds the whole path.
    if (parents[child] !== node || tokens[child] !== sampled(node)) continue;
    if (sampled(child) === null) break;
    path.push(child);
    node = child;
  }
  return path;
}
