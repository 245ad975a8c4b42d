import { at } from "#tensor";
import type { AcceptTreesInput } from "../ops.ts";
import { checkTreeColumns } from "../tree-counts.ts";
import { i32 } from "./host-tensor.ts";

/** Of each tree, the nodes whose token is what was sampled behind their parent, an accepted one. */
export function acceptTrees(input: AcceptTreesInput): void {
  const { count, columns } = input;
  checkTreeColumns(input);
  const [ids, sampled, drafted] = [i32(input.ids), i32(input.sampled), i32(input.drafted)];
  const [firstIds, firstSampled] = [i32(input.firstIds), i32(input.firstSampled)];
  const [parents, roots] = [i32(input.parents), i32(input.roots)];
  const [nodes, depths] = [i32(input.nodes), i32(input.depths)];
  for (let c = 0; c < count; c++) {
    const [id, sample] = [at(firstIds, c), at(firstSampled, c)];
    // Depths of accepted nodes; the others are -1.
    const accepted = [0];
    let best = 0;
    for (let node = 1; node <= at(drafted, c); node++) {
      const parent = at(parents, c * columns + node - 1);
      const before = accepted[parent] ?? -1;
      const matches = at(ids, id + node - 1) === at(sampled, sample + parent);
      const depth = before >= 0 && matches ? before + 1 : -1;
      accepted.push(depth);
      if (depth > (accepted[best] ?? 0)) best = node;
    }
    roots[c] = at(sampled, sample + best);
    nodes[c] = at(nodes, c) + best;
    depths[c] = at(depths, c) + (accepted[best] ?? 0);
  }
}
