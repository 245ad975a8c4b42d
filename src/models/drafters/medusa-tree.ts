/** Which of the heads' choices make a Medusa tree. */
import type { TreeNodes } from "./started-trees.ts";

/** Choices of the heads along one path: the n-th is which choice of head n, 0 the likeliest. */
export type Choices = readonly number[];

/** What is known of a drafter's heads. */
export interface HeadAccuracies {
  /** [heads][choices]: how often a head's k-th choice is right. */
  readonly accuracies: readonly (readonly number[])[];
  /** The only paths that a tree may have; null: any. */
  readonly allowed: readonly Choices[] | null;
}

export interface TreeBounds {
  /** Most tokens of a path. */
  readonly length: number;
  /** Most paths that end apart. */
  readonly width: number;
  /** Most nodes, the root not counted. */
  readonly nodesMax: number;
}

/** Right of a head's first choice, where nothing was measured; of the next head's. */
const FIRST_RIGHT = 0.6;
const NEXT_HEAD = 0.75;
/** Of a head's next choice. */
const NEXT_CHOICE = 0.3;

/** Assumed where a checkpoint has no measured accuracies. */
export function assumedAccuracies(heads: number, choices: number): readonly (readonly number[])[] {
  return Array.from({ length: heads }, (_, head) =>
    Array.from(
      { length: choices },
      (_, choice) => FIRST_RIGHT * NEXT_HEAD ** head * NEXT_CHOICE ** choice,
    ),
  );
}

interface Node {
  readonly path: Choices;
  /** The probability that all of its choices are right, if heads were independent. */
  readonly likely: number;
  readonly parent: Node | null;
  children: number;
}

/**
 * The paths of a tree, the likeliest first. It grows by the likeliest node that the bounds still
 * allow, as Medusa's own trees do, which puts the most expected tokens into so many nodes.
 * Source: Cai et al. 2024 (arXiv 2401.10774), 2.3.
 */
export function medusaPaths(heads: HeadAccuracies, bounds: TreeBounds): readonly Choices[] {
  const { accuracies, allowed } = heads;
  const { length, width, nodesMax } = bounds;
  const isAllowed = allowedOf(allowed);
  const taken: Node[] = [];
  const open: Node[] = [];
  const offer = (parent: Node | null, choice: number): void => {
    const before = parent?.path ?? [];
    const right = accuracies[before.length]?.[choice];
    if (before.length >= length || choice >= width || right === undefined) return;
    const path = [...before, choice];
    if (!isAllowed(path)) return;
    open.push({ path, likely: (parent?.likely ?? 1) * right, parent, children: 0 });
  };
  const offerAll = (parent: Node | null): void => {
    for (let choice = 0; choice < width; choice++) offer(parent, choice);
  };
  offerAll(null);
  let ends = 0;
  while (taken.length < nodesMax) {
    const best = likeliest(open, ends === width);
    if (best === null) break;
    open.splice(open.indexOf(best), 1);
    taken.push(best);
    // A node that continues the end of a path replaces that end.
    if (best.parent === null || best.parent.children > 0) ends++;
    if (best.parent !== null) best.parent.children++;
    offerAll(best);
  }
  return inOrder(taken);
}

/** The nodes of a tree of such paths, and which choice of its head each of them is. */
export interface MedusaNodes extends TreeNodes {
  /** [N]; -1 of the root. */
  readonly choices: Int32Array;
}

/** What begins alike is one path; nodes come in the order of the paths. */
export function medusaNodes(paths: readonly Choices[]): MedusaNodes {
  const places = new Map<string, number>([["", 0]]);
  const [parents, depths, choices] = [[-1], [0], [-1]];
  for (const path of paths) {
    let parent = 0;
    path.forEach((choice, head) => {
      const key = path.slice(0, head + 1).join(" ");
      const node = places.get(key) ?? parents.length;
      if (node === parents.length) {
        places.set(key, node);
        parents.push(parent);
        depths.push(head + 1);
        choices.push(choice);
      }
      parent = node;
    });
  }
  return {
    parents: Int32Array.from(parents),
    depths: Int32Array.from(depths),
    choices: Int32Array.from(choices),
  };
}

/** `full`: only a node that continues the end of a path may come. */
function likeliest(open: readonly Node[], full: boolean): Node | null {
  let best: Node | null = null;
  for (const node of open) {
    const continues = node.parent !== null && node.parent.children === 0;
    if (full && !continues) continue;
    if (best === null || node.likely > best.likely) best = node;
  }
  return best;
}

/** Whether a path is among those that are allowed, or begins one. */
function allowedOf(allowed: readonly Choices[] | null): (path: Choices) => boolean {
  if (allowed === null) return () => true;
  const known = new Set(
    allowed.flatMap((path) => path.map((_, at) => path.slice(0, at + 1).join(" "))),
  );
  return (path) => known.has(path.join(" "));
}

/** Paths to the ends, so that each brings the likeliest node that none before it has. */
function inOrder(taken: readonly Node[]): readonly Choices[] {
  const left = new Set(taken);
  const paths: Choices[] = [];
  // Nodes were taken by falling probability, as far as the bounds allowed.
  for (const node of taken) {
    if (!left.has(node)) continue;
    const end = endOf(node, taken);
    for (let at: Node | null = end; at !== null; at = at.parent) left.delete(at);
    paths.push(end.path);
  }
  return paths;
}

/** Along the likeliest children. */
function endOf(node: Node, taken: readonly Node[]): Node {
  const next = taken.find(({ parent }) => parent === node);
  return next === undefined ? node : endOf(next, taken);
}
