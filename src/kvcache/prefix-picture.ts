/**
 * The prefix tree as a picture: runs of contents that continue each other without a branch, the
 * largest ones first, each with where its contents are. Bounded however large the tree is.
 */
import { assert, intAt } from "#base";
import {
  type ContentIndex,
  groupOfScope,
  type NodeId,
  nodeId,
  parseScope,
} from "#kvcache/contents";
import type { CacheBooks } from "#kvcache/levels";

/** Nodes that one picture visits at most: some 15 ms. */
const VISITED_MAX = 2 ** 16;
/** Segments of a run that are told; the last one stands for all further ones. */
const SEGMENTS_MAX = 12;
const NONE = -1;

/** A node of the tree that may be gone meanwhile: `serial` tells. */
export interface NodeName {
  readonly node: number;
  readonly serial: number;
}

/** What is wanted of the tree. */
export interface PrefixAsk {
  /** The run to begin at; null: the whole tree. */
  readonly root: NodeName | null;
  readonly runsMax: number;
}

/** Contents of a run, next to each other, that are alike. */
export interface RunSegment {
  readonly contents: number;
  /** Of the best copy. */
  readonly level: number;
  /** Whether some table or transfer holds it. */
  readonly held: boolean;
  readonly priority: number;
}

/** Contents that continue each other; the tree branches behind the last one, or ends. */
export interface PrefixRun extends NodeName {
  /** Index of the run that it continues, in the same list, before it; -1: none of these. */
  readonly parent: number;
  readonly contents: number;
  readonly tokens: number;
  /** Contents of the run and of all that continues it, shown or not. */
  readonly below: number;
  readonly segments: readonly RunSegment[];
  /** Runs behind it that are not in the list, and their contents. */
  readonly hiddenRuns: number;
  readonly hiddenContents: number;
  /** The group of layers, and whether its requests gave a salt. */
  readonly group: number;
  readonly salted: boolean;
}

/** The tree, or a part of it. */
export interface PrefixPicture {
  /** Parents before what continues them. */
  readonly runs: readonly PrefixRun[];
  /** All contents of the part. */
  readonly contents: number;
  /** Runs at the root of the tree that are not in the list, and their contents. */
  readonly hiddenRuns: number;
  readonly hiddenContents: number;
  /** Contents in front of the first run. */
  readonly depth: number;
  /** False: the tree is larger than what was visited. */
  readonly complete: boolean;
}

/** Null: the run to begin at is gone. Costs a scan of the tree, up to 65,536 contents. */
export function prefixPicture(books: CacheBooks, ask: PrefixAsk): PrefixPicture | null {
  const { index } = books;
  const root = ask.root === null ? null : nodeNamed(index, ask.root);
  if (ask.root !== null && root === null) return null;
  const scan = new Scan(index, root);
  const shown = scan.largest(ask.runsMax);
  const place = new Map(shown.map((run, at) => [run, at]));
  const hidden = scan.hidden(place);
  const runs = shown.map((run) => ({
    ...scan.describe(run, books),
    parent: place.get(scan.parentOf(run)) ?? NONE,
    ...hidden(run),
  }));
  return {
    runs,
    contents: scan.contents,
    ...hidden(NONE),
    depth: root === null ? 0 : depthOf(index, root),
    complete: scan.complete,
  };
}

/** The node that was named, where it still has the same contents; else null. */
export function nodeNamed(index: ContentIndex, { node, serial }: NodeName): NodeId | null {
  if (!index.isStored(node)) return null;
  return index.serialOf(nodeId(node)) === serial ? nodeId(node) : null;
}

function depthOf(index: ContentIndex, node: NodeId): number {
  let depth = 0;
  for (let at = index.tree.parentOf(node); at !== null; at = index.tree.parentOf(at)) depth++;
  return depth;
}

/** The runs of a tree, or of the part below one node, in the order of a walk: parents first. */
class Scan {
  readonly #index: ContentIndex;
  /** By run: its first and its last node, the run before it, contents in it, and with all below. */
  readonly #first: NodeId[] = [];
  readonly #last: NodeId[] = [];
  readonly #parent: number[] = [];
  readonly #contents: number[] = [];
  readonly #below: number[] = [];
  #visited = 0;
  #complete = true;

  constructor(index: ContentIndex, root: NodeId | null) {
    this.#index = index;
    const runOf = new Map<NodeId, number>();
    for (const node of index.tree.nodes()) {
      const parent = index.tree.parentOf(node);
      const before = parent === null ? undefined : runOf.get(parent);
      if (root !== null && node !== root && before === undefined) continue;
      if (this.#visited === VISITED_MAX) {
        this.#complete = false;
        break;
      }
      this.#visited++;
      runOf.set(node, this.#take(node, parent, before));
    }
    this.#below = [...this.#contents];
    for (let run = this.#below.length - 1; run > 0; run--) {
      const parent = this.parentOf(run);
      if (parent !== NONE) this.#below[parent] = at(this.#below, parent) + at(this.#below, run);
    }
  }

  get contents(): number {
    return this.#visited;
  }

  get complete(): boolean {
    return this.#complete;
  }

  parentOf(run: number): number {
    return at(this.#parent, run);
  }

  /** The runs with most contents below, in their order. A run always comes with those before it. */
  largest(most: number): number[] {
    const counts = new Int32Array(this.#visited + 1);
    for (const below of this.#below) counts[below] = intAt(counts, below) + 1;
    let least = this.#visited;
    let taken = 0;
    // Below 1 there is nothing.
    while (least > 0 && taken + intAt(counts, least) <= most) taken += intAt(counts, least--);
    let left = most - taken;
    const runs: number[] = [];
    this.#below.forEach((below, run) => {
      // Of equally large ones as many as fit: none of them is before another.
      if (below > least || (below === least && left-- > 0)) runs.push(run);
    });
    return runs;
  }

  /** What is behind each run and not shown, told by the run; `NONE`: at the root. */
  hidden(shown: ReadonlyMap<number, number>) {
    const runs = new Map<number, number>();
    const contents = new Map<number, number>();
    this.#parent.forEach((parent, run) => {
      if (shown.has(run) || !(parent === NONE || shown.has(parent))) return;
      runs.set(parent, (runs.get(parent) ?? 0) + 1);
      contents.set(parent, (contents.get(parent) ?? 0) + at(this.#below, run));
    });
    return (run: number) => ({
      hiddenRuns: runs.get(run) ?? 0,
      hiddenContents: contents.get(run) ?? 0,
    });
  }

  /** One run, without what is around it. */
  describe(run: number, books: CacheBooks) {
    const { tree } = this.#index;
    const first = nodeAt(this.#first, run);
    const last = nodeAt(this.#last, run);
    const scope = tree.scopeOf(first);
    const contents = at(this.#contents, run);
    const nodes = this.#nodesUpTo(last, contents);
    return {
      node: first,
      serial: this.#index.serialOf(first),
      contents,
      tokens: nodes.reduce((sum, node) => sum + tree.lengthOf(node), 0),
      below: at(this.#below, run),
      segments: segmentsOf(nodes, books),
      group: groupOfScope(scope),
      salted: parseScope(scope).cacheSalt !== null,
    };
  }

  /** Adds a node to the run that it continues, or begins one. Returns the run. */
  #take(node: NodeId, parent: NodeId | null, before: number | undefined): number {
    if (parent !== null && before !== undefined && !this.#index.hasSeveralChildren(parent)) {
      this.#last[before] = node;
      this.#contents[before] = at(this.#contents, before) + 1;
      return before;
    }
    this.#first.push(node);
    this.#last.push(node);
    this.#parent.push(before ?? NONE);
    this.#contents.push(1);
    return this.#first.length - 1;
  }

  /** The last `count` nodes of a prefix, in order. */
  #nodesUpTo(last: NodeId, count: number): NodeId[] {
    const nodes: NodeId[] = [];
    for (let node: NodeId | null = last; node !== null && nodes.length < count; ) {
      nodes.push(node);
      node = this.#index.tree.parentOf(node);
    }
    return nodes.reverse();
  }
}

function segmentsOf(nodes: readonly NodeId[], books: CacheBooks): RunSegment[] {
  const segments: RunSegment[] = [];
  for (const node of nodes) {
    const block = books.index.blockOf(node);
    const own = books.booksOf(block);
    const next = {
      level: own.level,
      held: isHeld(node, books),
      priority: own.priorityOf(block),
    };
    const last = segments.at(-1);
    const isAlike =
      last !== undefined &&
      last.level === next.level &&
      last.held === next.held &&
      last.priority === next.priority;
    if (last !== undefined && (isAlike || segments.length === SEGMENTS_MAX)) {
      segments[segments.length - 1] = { ...last, contents: last.contents + 1 };
    } else {
      segments.push({ contents: 1, ...next });
    }
  }
  return segments;
}

/** Any copy counts: equal blocks may be computed twice. */
function isHeld(node: NodeId, books: CacheBooks): boolean {
  for (const block of books.index.blocksOf(node)) {
    if (books.booksOf(block).holders(block) > 0) return true;
  }
  return false;
}

function at(list: readonly number[], place: number): number {
  const value = list[place];
  assert(value !== undefined, "A run is in all lists");
  return value;
}

function nodeAt(list: readonly NodeId[], place: number): NodeId {
  const value = list[place];
  assert(value !== undefined, "A run is in all lists");
  return value;
}
