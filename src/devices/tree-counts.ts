import { assert, TREE_NODES_MAX } from "#base";
import type { AcceptTreesInput } from "./ops.ts";

/** Checks the nodes of `acceptTrees`, the same on every device. */
export function checkTreeColumns({ columns }: AcceptTreesInput): void {
  assert(
    Number.isInteger(columns) && columns >= 0 && columns < TREE_NODES_MAX,
    `Cannot accept trees: at most ${TREE_NODES_MAX - 1} drafted nodes wanted, ` +
      `current value is ${columns}`,
  );
}
