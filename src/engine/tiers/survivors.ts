/** Selects which blocks of earlier runs are still reachable, and which fit. */
import { assert } from "#base";
import type { BlockFile } from "#kvcache";

/** A block on disk, and when its file was written (milliseconds since 1970). */
export interface FoundFile {
  readonly file: BlockFile;
  readonly writtenMs: number;
}

/** The result of `chooseSurvivors`. */
export interface Survivors {
  /** Parents before their children; at one depth the older first. */
  readonly kept: readonly FoundFile[];
  /** Their ancestors are not on disk, so no prompt can ever reach them. */
  readonly orphans: readonly FoundFile[];
  /** Reachable, but beyond the capacity. */
  readonly surplus: readonly FoundFile[];
}

interface Node {
  readonly found: FoundFile;
  readonly parent: Node | null;
  readonly depth: number;
  /** The latest time and the highest priority of this block and all its descendants. */
  latestMs: number;
  priority: number;
}

/**
 * At most `capacity` of `found`, and never a block without its ancestors. Drops the lowest priority
 * first, then the oldest. A block ranks as high as its best descendant, so that no block is dropped
 * before its descendants.
 */
export function chooseSurvivors(
  found: readonly FoundFile[],
  capacity: number,
  blockTokens: number,
): Survivors {
  const nodes = reachable(found, blockTokens);
  const reached = new Set(nodes.map((node) => node.found));
  const orphans = found.filter((file) => !reached.has(file));
  // Children come after their parents: in reverse order, every child is final before its parent.
  for (const node of nodes.toReversed()) {
    if (node.parent === null) continue;
    node.parent.latestMs = Math.max(node.parent.latestMs, node.latestMs);
    node.parent.priority = Math.max(node.parent.priority, node.priority);
  }
  const worst = nodes.toSorted(
    (a, b) => a.priority - b.priority || a.latestMs - b.latestMs || b.depth - a.depth,
  );
  const dropped = new Set(worst.slice(0, Math.max(0, nodes.length - capacity)));
  const kept = nodes
    .filter((node) => !dropped.has(node))
    .toSorted((a, b) => a.depth - b.depth || a.found.writtenMs - b.found.writtenMs);
  return {
    kept: kept.map((node) => node.found),
    orphans,
    surplus: [...dropped].map((node) => node.found),
  };
}

/** Blocks whose ancestors lead to a root, breadth first. Cycles of parents are unreachable. */
function reachable(found: readonly FoundFile[], blockTokens: number): Node[] {
  const children = new Map<string | null, FoundFile[]>();
  for (const file of found) {
    const siblings = children.get(file.file.parentKey);
    if (siblings === undefined) children.set(file.file.parentKey, [file]);
    else siblings.push(file);
  }
  const nodes = (children.get(null) ?? []).map((top) => nodeOf(top, null));
  for (const node of nodes) {
    const { file } = node.found;
    // A block that is not full has no children.
    if (file.tokens.length < blockTokens) continue;
    for (const child of children.get(file.key) ?? []) {
      if (child.file.scope === file.scope) nodes.push(nodeOf(child, node));
    }
  }
  assert(nodes.length <= found.length, "Cannot reach a file twice");
  return nodes;
}

function nodeOf(found: FoundFile, parent: Node | null): Node {
  const { writtenMs: latestMs, file } = found;
  const depth = parent === null ? 0 : parent.depth + 1;
  return { found, parent, depth, latestMs, priority: file.priority };
}
