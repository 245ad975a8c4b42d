/**
 * The orders in which passages stood in recent prompts, as a tree: an order that begins like an
 * earlier one finds that prompt's keys and values in the cache.
 */

/** A passage as the book knows it. */
export interface BookEntry {
  /** Of its text as the prompt has it: another text is another entry. */
  readonly id: string;
  readonly documentId: string;
  readonly index: number;
  readonly tokens: number;
}

/** Whether the cache still has the block with this hash. */
export type IsCached = (hash: bigint) => boolean;

interface BookNode {
  readonly id: string;
  readonly parent: BookNode | null;
  readonly children: Map<string, BookNode>;
  /** Of the last full block of the prompt up to here; null: unknown. */
  hash: bigint | null;
  usedAt: number;
}

/** Passages whose uses are counted, and nodes: about 1 MB at most. */
const NODES_MAX = 4096;
const USES_MAX = 8192;
/** Questions after which a use counts half. */
const HALF_LIFE = 200;

interface Uses {
  count: number;
  at: number;
}

/** The book of one corpus, for requests that share cached blocks. Deterministic: has no clock. */
export class PrefixBook {
  readonly #root: BookNode = newNode("", null);
  /** Oldest use first. */
  readonly #nodes = new Set<BookNode>();
  readonly #uses = new Map<string, Uses>();
  #questions = 0;

  /** Nodes that are kept. */
  get size(): number {
    return this.#nodes.size;
  }

  /**
   * The passages in the order that the cache serves best: first the longest run of them with which
   * an earlier prompt began and that is still cached, then the others, those that questions used
   * most often first, in the order of their documents among equals. `warm` are leading ones of that
   * run.
   */
  arrange<E extends BookEntry>(
    entries: readonly E[],
    isCached: IsCached,
  ): { readonly order: readonly E[]; readonly warm: number } {
    const byId = new Map(entries.map((entry) => [entry.id, entry]));
    const run = this.#longestRun(byId, isCached);
    const rest = new Map(byId);
    for (const { id } of run) rest.delete(id);
    const others = [...rest.values()].sort((a, b) => this.#compare(a, b));
    return { order: [...run, ...others], warm: run.length };
  }

  /** How often recent questions used a passage; older uses count less. */
  heat(id: string): number {
    const uses = this.#uses.get(id);
    return uses === undefined ? 0 : uses.count * 0.5 ** ((this.#questions - uses.at) / HALF_LIFE);
  }

  /** A prompt with these passages in this order was sent; the hashes are those of its blocks. */
  note(entries: readonly BookEntry[], hashes: readonly (bigint | null)[]): void {
    this.#questions++;
    let node = this.#root;
    for (const [place, { id }] of entries.entries()) {
      this.#use(id);
      let child = node.children.get(id);
      if (child === undefined) {
        child = newNode(id, node);
        node.children.set(id, child);
      }
      child.hash = hashes[place] ?? null;
      child.usedAt = this.#questions;
      node = child;
    }
    this.#touch(node);
    this.#shrink();
  }

  #longestRun<E extends BookEntry>(byId: ReadonlyMap<string, E>, isCached: IsCached): E[] {
    let best: { run: E[]; tokens: number; usedAt: number } = { run: [], tokens: 0, usedAt: -1 };
    const visit = (node: BookNode, run: E[], tokens: number) => {
      if (tokens > best.tokens || (tokens === best.tokens && node.usedAt > best.usedAt)) {
        best = { run, tokens, usedAt: node.usedAt };
      }
      const wanted = node.children.size < byId.size ? [...node.children.keys()] : [...byId.keys()];
      for (const id of wanted) {
        const [child, entry] = [node.children.get(id), byId.get(id)];
        if (child === undefined || entry === undefined) continue;
        if (child.hash !== null && !isCached(child.hash)) continue;
        visit(child, [...run, entry], tokens + entry.tokens);
      }
    };
    visit(this.#root, [], 0);
    return best.run;
  }

  #compare(a: BookEntry, b: BookEntry): number {
    const heat = this.heat(b.id) - this.heat(a.id);
    if (Math.abs(heat) > 1e-9) return heat;
    if (a.documentId !== b.documentId) return a.documentId < b.documentId ? -1 : 1;
    return a.index - b.index || (a.id < b.id ? -1 : 1);
  }

  #use(id: string): void {
    const count = this.heat(id) + 1;
    this.#uses.delete(id);
    this.#uses.set(id, { count, at: this.#questions });
    for (const oldest of this.#uses.keys()) {
      if (this.#uses.size <= USES_MAX) break;
      this.#uses.delete(oldest);
    }
  }

  /** The node and all before it were used last: they leave last, children before parents. */
  #touch(last: BookNode): void {
    for (let node: BookNode | null = last; node !== null && node !== this.#root; ) {
      this.#nodes.delete(node);
      this.#nodes.add(node);
      node = node.parent;
    }
  }

  #shrink(): void {
    for (const node of this.#nodes) {
      if (this.#nodes.size <= NODES_MAX) return;
      // A child's use is one of its parent too, and the parent was added behind it.
      this.#nodes.delete(node);
      node.parent?.children.delete(node.id);
    }
  }
}

function newNode(id: string, parent: BookNode | null): BookNode {
  return { id, parent, children: new Map(), hash: null, usedAt: 0 };
}
