import { expect, test } from "vitest";
import { seedFrom, uniformAt } from "#base";
import { type BlockId, type BlockPlace, blockId, type NodeId, PrefixTree } from "#kvcache";

const BLOCKS = 300;
const BLOCK_TOKENS = 3;
const SEEDS = [1, 2, 3, 4, 5];
const STEPS = 20_000;

const levelOf = (block: BlockId) => Math.floor(block / 100);

/** One content: its blocks in the order in which they must be listed. */
interface Content {
  readonly key: string;
  readonly parent: Content | null;
  readonly scope: string;
  readonly tokens: readonly number[];
  readonly extra: string;
  readonly blocks: BlockId[];
  readonly children: Set<Content>;
  readonly node: NodeId;
}

interface Wanted {
  readonly parent: Content | null;
  readonly scope: string;
  readonly tokens: readonly number[];
  readonly extra: string;
}

/** The definition: a map by whole history, and scans. */
class NaiveTree {
  readonly byKey = new Map<string, Content>();
  readonly byBlock = new Map<BlockId, Content>();

  keyOf({ parent, scope, tokens, extra }: Wanted): string {
    return `${parent === null ? scope : parent.key}/${extra}:${tokens.join(",")}`;
  }

  find(wanted: Wanted): Content | null {
    return this.byKey.get(this.keyOf(wanted)) ?? null;
  }

  siblings({ parent, scope }: Wanted): Content[] {
    if (parent !== null) return [...parent.children];
    return [...this.byKey.values()].filter((own) => own.parent === null && own.scope === scope);
  }

  /** The most common tokens of all siblings, and those who have them; of these, who ends there. */
  longest(wanted: Wanted): { tokens: number; among: Content[] } {
    const candidates = wanted.extra === "" ? this.siblings(wanted) : [];
    const common = candidates.map((own) => (own.extra === "" ? commonOf(own, wanted) : 0));
    const tokens = Math.max(0, ...common);
    const all = candidates.filter((_, index) => common[index] === tokens);
    const ended = all.filter((own) => own.tokens.length === tokens);
    return { tokens, among: ended.length > 0 ? ended : all };
  }

  add(wanted: Wanted, block: BlockId, node: NodeId): void {
    const known = this.find(wanted);
    const content: Content = known ?? {
      ...wanted,
      key: this.keyOf(wanted),
      scope: wanted.parent === null ? wanted.scope : wanted.parent.scope,
      blocks: [],
      children: new Set(),
      node,
    };
    this.byKey.set(content.key, content);
    content.parent?.children.add(content);
    this.attach(content, block);
  }

  attach(content: Content, block: BlockId): void {
    content.blocks.push(block);
    content.blocks.sort((a, b) => levelOf(a) - levelOf(b));
    this.byBlock.set(block, content);
  }

  remove(block: BlockId): void {
    const content = this.byBlock.get(block);
    if (content === undefined) throw new Error("The model does not have the block");
    content.blocks.splice(content.blocks.indexOf(block), 1);
    this.byBlock.delete(block);
    if (content.blocks.length > 0) return;
    this.byKey.delete(content.key);
    content.parent?.children.delete(content);
  }

  below(content: Content): Content[] {
    return [...content.children].flatMap((child) => [child, ...this.below(child)]);
  }
}

function commonOf(own: Content, wanted: Wanted): number {
  const most = Math.min(own.tokens.length, wanted.tokens.length);
  let count = 0;
  while (count < most && own.tokens[count] === wanted.tokens[count]) count++;
  return count;
}

/** `expect` is for what differs: a hundred thousand equal values take it seconds. */
function same(actual: unknown, wanted: unknown): void {
  if (!Object.is(actual, wanted)) expect(actual).toBe(wanted);
}

/** Both trees, driven together by one stream of draws. */
class Driver {
  readonly naive = new NaiveTree();
  readonly added: NodeId[] = [];
  readonly removed: string[] = [];
  readonly uncovered = new Set<BlockId>();
  readonly tree: PrefixTree = new PrefixTree(BLOCKS, BLOCK_TOKENS, {
    levelOf,
    onNodeAdded: (node) => this.added.push(node),
    onNodeRemoved: (node) => this.removed.push(this.describe(node)),
    onUncovered: (block) => this.uncovered.add(block),
  });
  readonly #seed: ReturnType<typeof seedFrom>;
  #draws = 0;

  constructor(seed: number) {
    this.#seed = seedFrom(seed);
  }

  below(limit: number): number {
    return Math.floor(uniformAt(this.#seed, this.#draws++) * limit);
  }

  pick<T>(items: readonly T[]): T | null {
    return items[this.below(items.length)] ?? null;
  }

  /** Some content, one with several blocks rather than one with few; null where there is none. */
  content(): Content | null {
    const from = this.below(BLOCKS);
    for (let index = 0; index < BLOCKS; index++) {
      const content = this.naive.byBlock.get(blockId((from + index) % BLOCKS));
      if (content !== undefined) return content;
    }
    return null;
  }

  /** A place near stored ones: few tokens, of which some differ in their highest bits. */
  wanted(): Wanted {
    const parent = this.below(3) === 0 ? null : this.content();
    const full = parent === null || parent.tokens.length === BLOCK_TOKENS ? parent : null;
    const count = this.below(3) === 0 ? 1 + this.below(BLOCK_TOKENS) : BLOCK_TOKENS;
    return {
      parent: full,
      scope: ["", "a", "b"][this.below(3)] ?? "",
      tokens: Array.from({ length: count }, () => [0, 1, 2, 70_000, -1][this.below(5)] ?? 0),
      extra: this.below(8) === 0 ? (["x", "y"][this.below(2)] ?? "") : "",
    };
  }

  place({ parent, scope, tokens, extra }: Wanted): BlockPlace {
    const start = this.below(3);
    const all = Int32Array.from([...Array.from({ length: start }, () => 9), ...tokens]);
    const place = { scope, parent: parent?.node ?? null, tokens: all, start };
    const count = tokens.length === BLOCK_TOKENS ? {} : { count: tokens.length };
    return { ...place, ...count, ...(extra === "" ? {} : { extra }) };
  }

  /** A node's whole history as the tree tells it. */
  describe(node: NodeId): string {
    const parent = this.tree.parentOf(node);
    const before = parent === null ? this.tree.scopeOf(node) : this.describe(parent);
    return `${before}/${this.tree.extraOf(node)}:${this.tree.tokensOf(node).join(",")}`;
  }

  step(): void {
    const draw = this.below(100);
    if (draw < 45) this.insert();
    else if (draw < 55) this.attach();
    else if (draw < 85) this.remove();
    else if (draw < 87) this.removeBelow();
    else this.look();
  }

  insert(): void {
    const block = blockId(this.below(BLOCKS));
    if (this.tree.has(block)) return;
    const wanted = this.wanted();
    const known = this.naive.find(wanted);
    const node = this.tree.insert(this.place(wanted), block);
    same(known === null ? this.added.pop() : known.node, node);
    this.naive.add(wanted, block, node);
  }

  attach(): void {
    const block = blockId(this.below(BLOCKS));
    const content = this.content();
    if (this.tree.has(block) || content === null) return;
    const [first] = content.blocks;
    const wasCovered = first !== undefined && this.tree.isCovered(first);
    this.uncovered.clear();
    this.tree.attach(content.node, block);
    this.naive.attach(content, block);
    if (wasCovered) same(this.uncovered.has(first), true);
  }

  remove(): void {
    const content = this.content();
    const block = content === null ? null : this.pick(content.blocks);
    if (content === null || block === null) return;
    const only = content.blocks.length === 1;
    same(this.tree.isOnlyBlock(block), only);
    same(this.tree.isCovered(block), only && content.children.size > 0);
    if (this.tree.isCovered(block)) {
      expect(() => this.tree.remove(block)).toThrow("before what continues it");
      return;
    }
    this.uncovered.clear();
    this.tree.remove(block);
    this.naive.remove(block);
    same(this.removed.pop(), only ? content.key : undefined);
    const { parent } = content;
    if (only && parent !== null && parent.children.size === 0) {
      same(this.uncovered.has(parent.blocks[0] ?? blockId(-1)), true);
    }
  }

  removeBelow(): void {
    const content = this.content();
    if (content === null) return;
    const below = this.naive.below(content);
    const gone: BlockId[] = [];
    this.tree.removeBelow(content.node, (block) => {
      same(this.tree.has(block), false);
      this.naive.remove(block);
      gone.push(block);
    });
    same(new Set(gone).size, gone.length);
    expect(this.removed.splice(0).sort()).toEqual(below.map(({ key }) => key).sort());
    same(content.children.size, 0);
  }

  look(): void {
    const wanted = this.wanted();
    const place = this.place(wanted);
    same(this.tree.find(place), this.naive.find(wanted)?.node ?? null);
    const found = this.tree.findPartial(place);
    const { tokens, among } = this.naive.longest(wanted);
    same(found?.tokens ?? 0, tokens);
    if (found !== null) expect(among.map(({ node }) => node)).toContain(found.node);
  }

  /** Nothing is left behind when all is gone. */
  drain(): void {
    for (let block = 0; block < BLOCKS; block++) {
      const node = this.tree.nodeOf(blockId(block));
      if (node === null) continue;
      this.tree.removeBelow(node, (gone) => this.naive.remove(gone));
      this.tree.remove(blockId(block));
      this.naive.remove(blockId(block));
    }
    this.check();
    same(this.tree.nodeCount + this.tree.scopeCount + this.tree.extraCount, 0);
  }

  /** Everything that can be read. */
  check(): void {
    const nodes = [...this.tree.nodes()];
    const seen = new Set<NodeId | null>([null]);
    for (const node of nodes) {
      same(seen.has(this.tree.parentOf(node)), true);
      seen.add(node);
      const content = this.naive.byKey.get(this.describe(node));
      same(content?.node, node);
      same([...this.tree.blocksOf(node)].join(), content?.blocks.join());
      same(this.tree.blockOf(node), content?.blocks[0]);
      same(this.tree.lengthOf(node), content?.tokens.length);
      same(this.tree.scopeOf(node), content?.scope);
      same(this.tree.hasChildren(node), (content?.children.size ?? 0) > 0);
    }
    same(nodes.length, this.naive.byKey.size);
    same(this.tree.nodeCount, nodes.length);
    const scopes = new Set([...this.naive.byKey.values()].map(({ scope }) => scope));
    same(this.tree.scopeCount, scopes.size);
    const extras = new Set([...this.naive.byKey.values()].map(({ extra }) => extra));
    same(this.tree.extraCount, extras.size - (extras.has("") ? 1 : 0));
    for (let block = 0; block < BLOCKS; block++) {
      const node = this.naive.byBlock.get(blockId(block))?.node ?? null;
      same(this.tree.nodeOf(blockId(block)), node);
    }
  }
}

test.for(SEEDS)("[KV7] the tree finds what a naive one finds (seed %i)", (seed) => {
  const driver = new Driver(seed);
  for (let step = 0; step < STEPS; step++) {
    driver.step();
    if (step % 2_000 === 0) driver.check();
  }
  driver.check();
  driver.drain();
});
