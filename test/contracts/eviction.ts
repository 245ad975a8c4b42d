/** What every order of eviction promises, tested against a plain list of blocks. */
import { expect, test } from "vitest";
import { seedFrom, uniformAt } from "#base";
import { type BlockId, blockId, createEviction, type EvictionPolicyName } from "#kvcache";

const SEEDS = [1, 2, 3, 4, 5];
const BLOCKS = 40;
const OPERATIONS = 1500;

/** What a plain model remembers of a block. */
export interface BlockPast {
  readonly block: BlockId;
  /** Tables that have held it since it was handed out. */
  uses: number;
  /** Its place in the table that it was handed out to. */
  index: number;
  priority: number;
  /** Counts releases. */
  releasedAt: number;
}

export interface EvictionPromise {
  /** Negative: `a` is forgotten before `b`. Never 0. */
  readonly order: (a: BlockPast, b: BlockPast) => number;
  /** Whether blocks that others continue are passed over. */
  readonly leavesFirst: boolean;
}

/** Random lives of blocks; the victim must be the first of the plain model's at any time. */
export function evictionContract(name: EvictionPolicyName, promise: EvictionPromise): void {
  test.for(SEEDS)(`[KV17] ${name} names the first of its order at any time (seed %i)`, (seed) => {
    const history = new History(name, promise, seed);
    for (let operation = 0; operation < OPERATIONS; operation++) history.live();
    history.forgetAll();
    expect(history.victims).toBeGreaterThan(200);
  });

  test(`[KV17] ${name} has no victim when no block is cached, and refuses strangers`, () => {
    const policy = createEviction(name, 4, () => false);
    expect(policy.victim()).toBeNull();
    policy.taken?.(blockId(2), 0);
    policy.add(blockId(2));
    expect(policy.count).toBe(1);
    expect(policy.victim()).toBe(2);
    expect(policy.victim()).toBe(2);
    expect(() => policy.add(blockId(2))).toThrow(/twice/);
    expect(() => policy.remove(blockId(1))).toThrow(/does not have it/);
    policy.remove(blockId(2));
    expect(policy.victim()).toBeNull();
    expect(policy.count).toBe(0);
  });
}

class History {
  readonly #promise: EvictionPromise;
  readonly #policy;
  readonly #seed;
  readonly #held: BlockPast[] = [];
  readonly #cached: BlockPast[] = [];
  readonly #covered = new Set<BlockId>();
  #draws = 0;
  #releases = 0;
  victims = 0;

  constructor(name: EvictionPolicyName, promise: EvictionPromise, seed: number) {
    this.#promise = promise;
    this.#seed = seedFrom(seed);
    this.#policy = createEviction(name, BLOCKS, (block) => this.#covered.has(block));
    for (let id = 0; id < BLOCKS; id++) this.#take(blockId(id));
  }

  live(): void {
    const dice = this.#below(10);
    if (dice < 3) this.#release();
    else if (dice < 5) this.#hold();
    else if (dice < 6) this.#prioritise();
    else if (dice < 7) this.#cover();
    else if (dice < 8) this.#uncover();
    else this.#forget();
    this.#check();
  }

  forgetAll(): void {
    while (this.#covered.size > 0) this.#uncover();
    while (this.#held.length > 0) this.#release();
    while (this.#cached.length > 0) this.#forget();
  }

  #take(block: BlockId): void {
    const past = { block, uses: 1, index: this.#below(9), priority: 35, releasedAt: 0 };
    this.#policy.taken?.(block, past.index);
    this.#held.push(past);
  }

  #release(): void {
    const [past] = this.#held.splice(this.#below(this.#held.length), 1);
    if (past === undefined) return;
    past.releasedAt = this.#releases++;
    this.#policy.add(past.block);
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

  #prioritise(): void {
    const past = this.#held[this.#below(this.#held.length)];
    if (past === undefined) return;
    past.priority = this.#below(101);
    this.#policy.prioritise?.(past.block, past.priority);
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
  }

  #forget(): void {
    const first = this.#first();
    expect(this.#policy.victim()).toBe(first?.block ?? null);
    if (first === null) return;
    this.#policy.remove(first.block);
    this.#cached.splice(this.#cached.indexOf(first), 1);
    this.victims++;
    this.#take(first.block);
  }

  #check(): void {
    expect(this.#policy.count).toBe(this.#cached.length);
    expect(this.#policy.victim()).toBe(this.#first()?.block ?? null);
  }

  #first(): BlockPast | null {
    const { order, leavesFirst } = this.#promise;
    const open = this.#cached.filter(({ block }) => !leavesFirst || !this.#covered.has(block));
    return open.sort(order)[0] ?? null;
  }

  #below(limit: number): number {
    return Math.floor(uniformAt(this.#seed, this.#draws++) * limit);
  }
}
