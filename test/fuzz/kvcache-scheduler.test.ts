/**
 * Random lives of many sequences. After each operation the books are audited; each step is played
 * on a pretend device whose slots hold, instead of keys and values, a digest of the history they
 * belong to. A position read with another history's digest would be a wrong token on a real one.
 */
import { expect, test } from "vitest";
import { seedFrom, uniformAt } from "#base";
import { EVICTION_POLICIES, type KvCache } from "#kvcache";
import type { Sequence, StepPlan } from "#scheduler";
import { Harness } from "../scheduler/harness.ts";

const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const OPERATIONS = 2000;
const BLOCK_TOKENS = 4;

/** Slots of the pool, written by items before any item of the same step reads. */
class PretendDevice {
  readonly #slots: Float64Array;

  constructor(blocks: number) {
    this.#slots = new Float64Array(blocks * BLOCK_TOKENS);
  }

  run(steps: readonly DeviceItem[]): void {
    for (const item of steps) this.#write(item);
    for (const item of steps) this.#checkPast(item);
  }

  #write({ table, digests, start, count }: DeviceItem): void {
    for (let position = start; position < start + count; position++) {
      this.#slots[this.#slot(table, position)] = digests[position] ?? Number.NaN;
    }
  }

  #checkPast({ table, digests, start, count }: DeviceItem): void {
    // A step planned ahead may compute positions behind its sequence's end, for nobody.
    const end = Math.min(start + count, digests.length);
    for (let position = 0; position < end; position++) {
      const stored = this.#slots[this.#slot(table, position)];
      if (stored !== digests[position]) {
        throw new Error(`Position ${position} holds another history's keys and values`);
      }
    }
  }

  #slot(table: readonly number[], position: number): number {
    const block = table[Math.floor(position / BLOCK_TOKENS)];
    if (block === undefined) throw new Error(`Position ${position} has no block`);
    return block * BLOCK_TOKENS + (position % BLOCK_TOKENS);
  }
}

interface DeviceItem {
  readonly table: readonly number[];
  readonly digests: readonly number[];
  readonly start: number;
  readonly count: number;
}

/** digests[i]: a number for scope and tokens 0 up to and including i; 52 bits. */
function digestsOf(sequence: Sequence): number[] {
  let digest = sequence.blockTable.scope.length + 1;
  return Array.from(sequence.tokens.view(), (token) => {
    digest = (digest * 1_000_003 + token * 7919 + 1) % 4_503_599_627_370_449;
    return digest;
  });
}

class Life {
  readonly harness: Harness;
  readonly #device: PretendDevice;
  readonly #seed: { low: number; high: number };
  readonly #live: Sequence[] = [];
  readonly #begun: { plan: StepPlan; tables: number[][] }[] = [];
  /** Steps that begin before the oldest is committed. */
  readonly #ahead: number;
  #draws = 0;
  ended = 0;
  failures = 0;

  constructor(seed: number) {
    this.#seed = seedFrom(seed);
    const blocks = 6 + this.#below(20);
    this.#ahead = seed % 3;
    this.#device = new PretendDevice(blocks);
    this.harness = new Harness({
      blocks,
      blockTokens: BLOCK_TOKENS,
      stepTokensMax: 8 + this.#below(40),
      runningSequencesMax: 2 + this.#below(6),
      longPrefillTokensMax: this.#below(2) === 0 ? null : 5 + this.#below(10),
      policy: this.#below(3) === 0 ? "priority" : "fcfs",
      waitingSequencesMax: 12,
      overlapSteps: this.#ahead > 0,
      evictionPolicy: EVICTION_POLICIES[seed % EVICTION_POLICIES.length] ?? "lru",
    });
  }

  /** One random operation, then the audit that the harness does. */
  live(): void {
    const dice = this.#below(100);
    if (dice < 25) this.#add();
    else if (dice < 32) this.#abortSomeone();
    else if (dice < 34) this.harness.scheduler.preemptAll();
    else if (dice < 36) this.harness.scheduler.resetPrefixCache();
    else if (dice < 41) this.#prioritiseSomeone();
    else this.#step();
    this.harness.scheduler.audit();
    this.#bury();
  }

  endAll(): void {
    for (const sequence of this.#live) this.harness.scheduler.grammarReady(sequence.id);
    for (let turn = 0; this.#live.length > 0; turn++) {
      if (turn > 20_000) throw new Error("Sequences do not end");
      this.#step();
      this.harness.scheduler.audit();
      this.#bury();
    }
  }

  #add(): void {
    if (this.harness.scheduler.stats().waiting >= 12) return;
    const most = Math.min(40, this.harness.scheduler.contextTokensMax - 1);
    // Few tokens and few scopes: prefixes meet often.
    const prompt = Array.from({ length: 1 + this.#below(most) }, (_, at) =>
      this.#below(at % 8 === 5 ? 2 : 1),
    );
    const sequence = this.harness.add(prompt, {
      priority: this.#below(3),
      cacheSalt: this.#below(4) === 0 ? "salt" : null,
      skipReadingPrefixCache: this.#below(10) === 0,
      awaitsGrammar: this.#below(10) === 0,
      stop: { maxTokens: 1 + this.#below(30), stopTokenIds: new Set([9]) },
    });
    this.#live.push(sequence);
  }

  #abortSomeone(): void {
    const sequence = this.#live[this.#below(Math.max(1, this.#live.length))];
    if (sequence === undefined) return;
    if (this.#below(3) === 0) this.harness.scheduler.grammarReady(sequence.id);
    else this.harness.scheduler.abort(sequence.id);
  }

  #prioritiseSomeone(): void {
    const sequence = this.#live[this.#below(Math.max(1, this.#live.length))];
    if (sequence === undefined) return;
    const { blockTable } = sequence;
    const start = this.#below(blockTable.length + 1);
    this.harness.cache.prioritise(blockTable, start, blockTable.length, this.#below(101));
  }

  #step(): void {
    const { scheduler } = this.harness;
    const plan = scheduler.plan();
    if (plan.tokens !== plan.items.reduce((sum, item) => sum + item.count, 0)) {
      throw new Error("A plan's tokens are not the sum of its counts");
    }
    this.harness.nowMs++;
    scheduler.begin(plan, this.harness.nowMs);
    scheduler.audit();
    const tables = plan.items.map((item) => [...item.sequence.blockTable.view()]);
    this.#begun.push({ plan, tables });
    if (this.#below(10) === 0) this.#abortSomeone();
    if (this.#below(25) === 0) this.#failSome();
    else if (this.#begun.length > this.#ahead) this.#finishOldest();
  }

  /** Nothing of these steps is written: what the pool holds in their places must not be found. */
  #failSome(): void {
    const [failed] = this.#begun.splice(this.#below(this.#begun.length));
    if (failed !== undefined) this.harness.scheduler.fail(failed.plan);
    this.failures++;
  }

  #finishOldest(): void {
    const step = this.#begun.shift();
    if (step === undefined) return;
    this.#device.run(
      step.plan.items.map(({ sequence, start, count }, index) => ({
        table: step.tables[index] ?? [],
        digests: digestsOf(sequence),
        start,
        count,
      })),
    );
    const drawn = step.plan.items.map((item) => {
      const { sequence, start, count, samples } = item;
      if (samples && !sequence.finished && sequence.tokens.length !== start + count) {
        throw new Error("A token is drawn for another place than the next");
      }
      return samples ? this.#draw() : [];
    });
    this.harness.scheduler.commit(step.plan, drawn, this.harness.nowMs);
  }

  /** One token, or two where no step behind relies on there being one. */
  #draw(): number[] {
    const count = this.#ahead > 0 ? 1 : 1 + this.#below(2);
    return Array.from({ length: count }, () => this.#drawToken());
  }

  #drawToken(): number {
    return this.#below(30) === 0 ? 9 : this.#below(2);
  }

  #bury(): void {
    for (let index = this.#live.length - 1; index >= 0; index--) {
      if (this.#live[index]?.finished !== true) continue;
      this.#live.splice(index, 1);
      this.ended++;
    }
  }

  #below(limit: number): number {
    return Math.floor(uniformAt(this.#seed, this.#draws++) * limit);
  }
}

test.for(SEEDS)("[KV1] [SC3] books and contents stay right in a random life (seed %i)", (seed) => {
  const life = new Life(seed);
  for (let operation = 0; operation < OPERATIONS; operation++) life.live();
  life.endAll();
  const stats = life.harness.scheduler.stats();
  expect(stats.heldBlocks).toBe(0);
  expect(stats.freeBlocks + stats.cachedBlocks).toBe(stats.totalBlocks);
  expect(life.ended).toBeGreaterThan(100);
  expect(life.failures).toBeGreaterThan(10);
  expect(stats.preemptions).toBeGreaterThan(0);
  expect(stats.prefixHitTokens).toBeGreaterThan(100);
});

function liveWith(plant: (cache: KvCache) => void): () => void {
  return () => {
    const life = new Life(3);
    plant(life.harness.cache);
    for (let operation = 0; operation < OPERATIONS; operation++) life.live();
  };
}

test("[KV3] a planted lost release is caught", () => {
  const plant = (cache: KvCache) => {
    const release = cache.release.bind(cache);
    cache.release = (table) => {
      if (table.length > 2) table.ids.pop();
      release(table);
    };
  };
  expect(liveWith(plant)).toThrow("holders, tables hold it 0 times");
});

test("[KV3] a planted second release is caught", () => {
  const plant = (cache: KvCache) => {
    const release = cache.release.bind(cache);
    cache.release = (table) => {
      if (table.length > 2) table.ids.push(table.get(0));
      release(table);
    };
  };
  expect(liveWith(plant)).toThrow(/tables hold it|nobody holds/);
});

test("[KV16] what a failed step never wrote is caught when it is not forgotten", () => {
  const plant = (cache: KvCache) => {
    cache.forgetPublished = () => undefined;
  };
  expect(liveWith(plant)).toThrow("another history's keys and values");
});
