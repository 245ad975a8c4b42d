/** What every order of eviction promises, tested against a plain list of blocks. */
import { expect, test } from "vitest";
import { seedFrom, uniformAt } from "#base";
import {
  createEviction,
  type EvictionPolicy,
  type EvictionPolicyName,
  type LevelBlockId,
  levelBlockId,
} from "#kvcache";

const SEEDS = [1, 2, 3, 4, 5];
const BLOCKS = 40;
const OPERATIONS = 1500;

/** What a plain model remembers of a block. */
export interface BlockPast {
  readonly block: LevelBlockId;
  /** Tables that have held it since it was handed out. */
  uses: number;
  /** Its place in the table that it was handed out to. */
  index: number;
  priority: number;
  /** Counts releases; below 0 for those that went before all others. */
  releasedAt: number;
  /** Counts the times that a block was passed over; null: its turn is to come. */
  asideAt: number | null;
}

/** What the contract tests beyond what all orders have in common. */
export interface EvictionPromise {
  /** Negative: `a` is forgotten before `b`. Never 0. */
  readonly order: (a: BlockPast, b: BlockPast) => number;
  /** How blocks that others continue are passed over; null: they are not. */
  readonly passing: Passing | null;
}

/** What becomes of blocks that were passed over. */
export interface Passing {
  /** Where only such blocks are left: negative, if `a` is forgotten before `b`. Never 0. */
  readonly order: (a: BlockPast, b: BlockPast) => number;
  /** Uncovered, a block comes to its own turn, or before all its equals. */
  readonly returnsTo: "turn" | "front";
}

/** Random lives of blocks; the victim must be the first of the plain model's at any time. */
export function evictionContract(name: EvictionPolicyName, promise: EvictionPromise): void {
  test.for(SEEDS)(`[KV17] ${name} names the first of its order at any time (seed %i)`, (seed) => {
    const history = new History(name, promise, seed);
    for (let operation = 0; operation < OPERATIONS; operation++) history.live();
    history.forgetAll();
    expect(history.victims).toBeGreaterThan(200);
  });

  test.for(SEEDS)(`[KV76] ${name} lists its blocks as it would evict them (seed %i)`, (seed) => {
    const history = new History(name, promise, seed);
    for (let operation = 0; operation < OPERATIONS; operation++) {
      history.live();
      history.checkList();
    }
    history.releaseAll();
    const listed = history.list();
    expect(listed).toHaveLength(BLOCKS);
    expect(listed).toEqual(history.evictAll());
  });

  test(`[KV17] ${name} has no victim when no block is cached, and refuses strangers`, () => {
    const policy = createEviction(name, 4, () => false);
    expect(policy.victim()).toBeNull();
    policy.taken?.(levelBlockId(2), 0);
    policy.add(levelBlockId(2));
    expect(policy.count).toBe(1);
    expect(policy.victim()).toBe(2);
    expect(policy.victim()).toBe(2);
    expect(() => policy.add(levelBlockId(2))).toThrow(/twice/);
    expect(() => policy.remove(levelBlockId(1))).toThrow(/does not have it/);
    policy.remove(levelBlockId(2));
    expect(policy.victim()).toBeNull();
    expect(policy.count).toBe(0);
  });

  test(`[KV17] T 4: ${name} names first what was given back to the front`, () => {
    const policy = createEviction(name, 4, () => false);
    for (const block of [0, 1, 2, 3]) policy.taken?.(levelBlockId(block), 0);
    for (const block of [0, 1]) policy.add(levelBlockId(block));
    policy.addFirst(levelBlockId(2));
    expect(policy.victim()).toBe(2);
    policy.addFirst(levelBlockId(3));
    expect(() => policy.addFirst(levelBlockId(3))).toThrow(/twice/);
    expect(forgetAll(policy)).toEqual([3, 2, 0, 1]);
  });
}

/** Forgets every block, in the policy's order. */
export function forgetAll(policy: EvictionPolicy): LevelBlockId[] {
  const order: LevelBlockId[] = [];
  for (let victim = policy.victim(); victim !== null; victim = policy.victim()) {
    policy.remove(victim);
    order.push(victim);
  }
  return order;
}

const FRESH = { priority: 35, releasedAt: 0, asideAt: null };

class History {
  readonly #promise: EvictionPromise;
  readonly #policy;
  readonly #seed;
  readonly #held: BlockPast[] = [];
  readonly #cached: BlockPast[] = [];
  readonly #covered = new Set<LevelBlockId>();
  #draws = 0;
  #releases = 0;
  #firstReleases = 0;
  #passed = 0;
  victims = 0;

  constructor(name: EvictionPolicyName, promise: EvictionPromise, seed: number) {
    this.#promise = promise;
    this.#seed = seedFrom(seed);
    this.#policy = createEviction(name, BLOCKS, (block) => this.#covered.has(block));
    for (let id = 0; id < BLOCKS; id++) this.#take(levelBlockId(id));
  }

  live(): void {
    const dice = this.#below(20) / 2;
    if (dice < 3) this.#release();
    else if (dice < 5) this.#hold();
    else if (dice < 6) this.#prioritise(this.#held);
    else if (dice < 6.5) this.#prioritise(this.#cached);
    else if (dice < 7) this.#cover();
    else if (dice < 8) this.#uncover();
    else this.#forget();
    this.#check();
  }

  forgetAll(): void {
    this.releaseAll();
    while (this.#cached.length > 0) this.#forget();
  }

  list(): LevelBlockId[] {
    return this.#policy.inOrder();
  }

  /** Lists every cached block once, and changes nothing. */
  checkList(): void {
    const cached = this.#cached.map(({ block }) => block);
    expect(this.list().sort((a, b) => a - b)).toEqual(cached.sort((a, b) => a - b));
  }

  /** Every block is cached then, and none is covered. */
  releaseAll(): void {
    while (this.#covered.size > 0) this.#uncover();
    while (this.#held.length > 0) this.#release();
  }

  /** Every cached block, by one victim after the other. */
  evictAll(): LevelBlockId[] {
    return forgetAll(this.#policy);
  }

  #take(block: LevelBlockId): void {
    const past = { block, uses: 1, index: this.#below(9), ...FRESH };
    this.#policy.taken?.(block, past.index);
    this.#held.push(past);
  }

  #release(): void {
    const [past] = this.#held.splice(this.#below(this.#held.length), 1);
    if (past === undefined) return;
    past.asideAt = null;
    if (this.#below(8) === 0) {
      past.releasedAt = --this.#firstReleases;
      this.#policy.addFirst(past.block);
    } else {
      past.releasedAt = this.#releases++;
      this.#policy.add(past.block);
    }
    this.#cached.push(past);
  }

  #hold(): void {
    const [past] = this.#cached.splice(this.#below(this.#cached.length), 1);
    if (past === undefined) return;
    this.#policy.remove(past.block);
    this.#policy.shared?.(past.block);
    past.uses++;
    this.#held.push(past);
  }

  /** A cached block goes behind its new equals. */
  #prioritise(among: readonly BlockPast[]): void {
    const past = among[this.#below(among.length)];
    const priority = this.#below(101);
    if (past === undefined || this.#policy.prioritise === undefined) return;
    this.#policy.prioritise(past.block, priority);
    if (past.priority === priority) return;
    past.priority = priority;
    past.releasedAt = this.#releases++;
    past.asideAt = null;
  }

  /** Blocks are continued while they are held. */
  #cover(): void {
    const past = this.#held[this.#below(this.#held.length)];
    if (past !== undefined) this.#covered.add(past.block);
  }

  #uncover(): void {
    const block = [...this.#covered][this.#below(this.#covered.size)];
    if (block === undefined) return;
    this.#covered.delete(block);
    this.#policy.uncovered?.(block);
    const past = this.#cached.find((cached) => cached.block === block);
    if (past === undefined || past.asideAt === null) return;
    past.asideAt = null;
    if (this.#promise.passing?.returnsTo === "front") past.releasedAt = --this.#firstReleases;
  }

  #forget(): void {
    const first = this.#first();
    expect(this.#policy.victim()).toBe(first?.block ?? null);
    if (first === null) return;
    this.#policy.remove(first.block);
    this.#cached.splice(this.#cached.indexOf(first), 1);
    this.#covered.delete(first.block);
    this.victims++;
    this.#take(first.block);
  }

  #check(): void {
    expect(this.#policy.count).toBe(this.#cached.length);
    expect(this.#policy.victim()).toBe(this.#first()?.block ?? null);
  }

  #first(): BlockPast | null {
    const { order, passing } = this.#promise;
    const open = this.#cached.filter(({ asideAt }) => asideAt === null).sort(order);
    for (const past of open) {
      if (passing === null || !this.#covered.has(past.block)) return past;
      past.asideAt = this.#passed++;
    }
    return passing === null ? null : ([...this.#cached].sort(passing.order)[0] ?? null);
  }

  #below(limit: number): number {
    return Math.floor(uniformAt(this.#seed, this.#draws++) * limit);
  }
}
