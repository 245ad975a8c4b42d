/**
 * A random life of the cache: sequences come, grow, fork, are swapped and go, while pretend storage
 * carries out every move. After each operation the books are audited, all that a later query sees
 * is compared with what it must be, and a reader of the events with the cache itself.
 */
import { IntList } from "#base";
import { type BlockRetention, KvCache, type KvCacheShape } from "#kvcache";
import { Admission } from "./cache-admission.ts";
import { Dice } from "./dice.ts";
import { checkRestart, LifeChecks } from "./life-checks.ts";
import { LifePrompts } from "./life-prompts.ts";
import { PretendPeers, type TravelCounts, type TravellingPrompt } from "./pretend-peers.ts";
import { digestIn, PretendSequence } from "./pretend-sequence.ts";
import { PretendStorage } from "./pretend-storage.ts";

/** Most live sequences; the number changes with the phases of a life, busy ones and idle ones. */
const LIVE_MAX = 8;
const PHASE_OPERATIONS = 64;
/** Operations between comparisons of a reader with the whole cache. */
const MIRROR_EVERY = 16;
const SLOW_READER_EVERY = 40;
const TRANSFERS_MAX = 3;

/** How often each operation is tried, out of the sum of all. */
const WEIGHTS = {
  ...{ admit: 26, grow: 26, fork: 6, release: 8, preempt: 3 },
  ...{ "swap out": 4, "swap in": 5, expire: 4, retain: 4, evict: 2 },
  ...{ "disk job": 5, load: 6, "write heads": 2, fail: 2, truncate: 2, reset: 1, look: 2 },
  ...{ forget: 1, send: 4, receive: 4, "send more": 4, "peer job": 12, "end transfer": 3 },
};
export type OperationName = keyof typeof WEIGHTS;

// The keys of a literal are its names.
export const OPERATION_NAMES = Object.keys(WEIGHTS) as readonly OperationName[];
const DRAWS = OPERATION_NAMES.flatMap((name) => Array.from({ length: WEIGHTS[name] }, () => name));

/** One life. Every operation may fail to find what it needs; it does nothing then. */
export class CacheLife {
  readonly cache: KvCache;
  /** How often each operation found something to do. */
  readonly operations: Map<OperationName, number> = new Map();
  readonly #runs: Record<OperationName, () => boolean> = this.#operations();
  readonly #shape: KvCacheShape;
  readonly #dice: Dice;
  readonly #prompts: LifePrompts;
  readonly #storage: PretendStorage;
  readonly #checks: LifeChecks;
  readonly #peers: PretendPeers;
  #live: PretendSequence[] = [];
  #nowMs = 0;
  #loads = 0;
  #done = 0;
  #liveMax = LIVE_MAX;

  constructor(shape: KvCacheShape, seed: number) {
    this.#shape = { ...shape, events: "v1_block_key" };
    this.cache = new KvCache(this.#shape);
    this.#dice = new Dice(seed);
    this.#prompts = new LifePrompts(this.#dice);
    const { blocks, hostBlocks = 0, diskBlocks = 0, blockTokens } = shape;
    this.#storage = new PretendStorage(blocks + hostBlocks + diskBlocks, blockTokens);
    this.#checks = new LifeChecks(this.cache, this.#storage);
    this.#peers = new PretendPeers(this.cache, this.#storage, (limit) => this.#dice.below(limit));
  }

  /** How often a slow reader of the events had to start from a snapshot. */
  get snapshotsTaken(): number {
    return this.#checks.snapshotsTaken;
  }

  /** Blocks that went to other engines and came from them. */
  get travelled(): TravelCounts {
    return this.#peers.counts;
  }

  /** One random operation, and all checks. */
  live(): void {
    if (this.#done % PHASE_OPERATIONS === 0) this.#liveMax = 1 + this.#dice.below(LIVE_MAX);
    const name = this.#choose();
    const done = this.#runs[name]();
    if (done) this.operations.set(name, (this.operations.get(name) ?? 0) + 1);
    this.#check();
  }

  /** All sequences end: nothing may be held, and what is on disk is found after a restart. */
  end(): void {
    while (this.#live.length > 0) this.#leave(this.#live[0]);
    this.#peers.endAll();
    this.#finishJobs();
    this.#check();
    this.#checks.mirror();
    this.#checks.nothingHeld();
    if ((this.#shape.diskBlocks ?? 0) > 0) checkRestart(this.#shape, this.#storage.files.values());
  }

  /** Makes room where too many live; else one of all, each as often as its weight says. */
  #choose(): OperationName {
    if (this.#live.length > this.#liveMax) return "release";
    return this.#dice.pick(DRAWS) ?? "look";
  }

  #operations(): Record<OperationName, () => boolean> {
    return {
      admit: () => this.#admit(),
      grow: () => this.#grow(),
      fork: () => this.#fork(),
      release: () => this.#leave(this.#any(), true),
      preempt: () => this.#leave(this.#any()),
      "swap out": () => this.#swapOut(),
      "swap in": () => this.#swapIn(),
      expire: () => this.#advance(),
      retain: () => this.#setRetention(),
      evict: () => this.#press(),
      "disk job": () => this.#finishJob(),
      load: () => this.#startLoad(),
      "write heads": () => this.#writeHeads(),
      fail: () => this.#failStep(),
      truncate: () => this.#truncate(),
      reset: () => this.#reset(),
      forget: () => this.#forget(),
      look: () => this.#look(),
      send: () => this.#travels() && this.#peers.startSend(this.#travelling()),
      receive: () => this.#travels() && this.#peers.startReceive(this.#travelling()),
      "send more": () => this.#peers.advance(),
      "peer job": () => this.#peers.finishJob(this.#dice.below(8) === 0),
      "end transfer": () => this.#peers.endOne(),
    };
  }

  /** One to three prompts in one step. */
  #admit(log: IntList | null = null): boolean {
    if (this.#live.length >= this.#liveMax) return false;
    const admission = new Admission(this.cache, this.#dice);
    for (let wanted = 1 + this.#dice.below(3); wanted > 0; wanted--) {
      admission.plan(new PretendSequence(this.#prompts.draw()));
    }
    const began = admission.begin(log);
    this.#live.push(...began.map(({ sequence }) => sequence));
    this.#flush();
    for (const { sequence, match, start } of began) {
      const end = sequence.computed;
      // In a step that fails, what an earlier sequence of it was to compute is not there either.
      sequence.computed = log === null ? start : match.tokens;
      this.#checks.sequence(sequence);
      sequence.isVoid = log !== null;
      // Each spoils what it was to compute itself: what it shares may be a live sequence's block.
      sequence.computed = start;
      this.#compute(sequence, end);
    }
    return began.length > 0;
  }

  /** A sequence goes on: with its prompt, or with tokens that were drawn. */
  #grow(): boolean {
    const sequence = this.#any((one) => !one.table.swapped);
    if (sequence === null) return false;
    const { table, tokens, computed } = sequence;
    if (computed === tokens.length) sequence.push(this.#prompts.token());
    const most = tokens.length - computed;
    const end = computed + 1 + this.#dice.below(most);
    if (!this.cache.makeWritable(table, computed)) return false;
    const ahead = this.#dice.below(4) === 0 ? 1 : 0;
    const blocks = this.cache.blocksFor(end) - table.length;
    if (!this.cache.allocate(table, blocks + ahead)) return false;
    if (ahead > 0) this.cache.shrink(table, table.length - ahead);
    this.cache.publish(table, tokens, end);
    this.#flush();
    this.#compute(sequence, end);
    this.cache.dropLeading(table, end);
    return true;
  }

  #fork(): boolean {
    const parent = this.#any();
    if (parent === null || this.#live.length >= this.#liveMax) return false;
    const child = parent.twin();
    this.cache.fork(parent.table, child.table);
    this.#live.push(child);
    return true;
  }

  /** A sequence ends or is cancelled, with its tail or without. */
  #leave(sequence: PretendSequence | null | undefined, mayStoreTail = false): boolean {
    if (sequence === null || sequence === undefined) return false;
    this.#live = this.#live.filter((other) => other !== sequence);
    const { table, tokens, computed, isVoid } = sequence;
    if (!isVoid) this.#prompts.remember(sequence.prompt());
    const storesTail = mayStoreTail && !isVoid && this.#dice.below(4) > 0;
    this.cache.release(table, storesTail ? { tokens, computed } : null);
    return true;
  }

  #swapOut(): boolean {
    const tables = this.#live
      .filter((one) => !one.table.swapped && !one.isVoid && this.#dice.below(3) === 0)
      .map((one) => one.table);
    const fits = this.cache.canSwapOut(tables);
    if (this.cache.swapOut(tables) !== fits) throw new Error("Room for a swap was misjudged");
    this.#flush();
    return fits && tables.length > 0;
  }

  #swapIn(): boolean {
    const tables = this.#live
      .filter((one) => one.table.swapped && this.#dice.below(2) === 0)
      .map((one) => one.table);
    const done = this.cache.swapIn(tables);
    this.#flush();
    return done && tables.length > 0;
  }

  #advance(): boolean {
    this.#nowMs += 1 + this.#dice.below(20);
    this.cache.advance(this.#nowMs);
    return true;
  }

  #setRetention(): boolean {
    const sequence = this.#any((one) => one.table.length > 0);
    if (sequence === null) return false;
    const retention: BlockRetention = {
      priority: this.#dice.pick([null, 0, 20, 30, 35, 80, 100]),
      durationMs: this.#dice.pick([null, 5, 30]),
    };
    const from = this.#dice.below(sequence.table.length);
    for (let index = from; index < sequence.table.length; index++) {
      this.cache.setRetention(sequence.table, index, retention);
    }
    return true;
  }

  /** Many blocks are wanted at once, for something that is not shared. */
  #press(): boolean {
    const { table } = new PretendSequence({ scope: "", keys: null, tokens: [] });
    const done = this.cache.allocate(table, this.#dice.below(this.cache.availableBlocks + 2));
    // What is evicted is copied before it is overwritten.
    this.#flush();
    for (const part of table.parts) {
      for (const block of part.view()) {
        for (let at = 0; at < this.#shape.blockTokens; at++) this.#storage.write(block, at, -1);
      }
    }
    this.cache.release(table);
    return done;
  }

  #startLoad(): boolean {
    const { scope, keys, tokens } = this.#prompts.draw();
    const match = this.cache.match(scope, Int32Array.from(tokens), keys);
    const started = this.cache.startLoad(match, this.#loads++);
    this.#flush();
    return started;
  }

  /** Few transfers at a time: each may hold a lot of a small cache. */
  #travels(): boolean {
    return this.#peers.liveCount < TRANSFERS_MAX && this.cache.poolStats(1).total > 0;
  }

  #travelling(): TravellingPrompt {
    const drawn = (this.#dice.below(3) > 0 && this.#prompts.known()) || this.#prompts.draw();
    const { table, tokens, digests } = new PretendSequence(drawn);
    const { scope, keys } = table;
    return { prompt: { scope, keys, tokens: tokens.view().slice() }, digests };
  }

  #writeHeads(): boolean {
    this.cache.writeHeads();
    const before = this.#storage.jobCount;
    this.#flush();
    return this.#storage.jobCount > before;
  }

  /** All that are under way, and what follows from them. */
  #finishJobs(): void {
    this.#flush();
    while (this.#storage.jobCount + this.#peers.jobCount > 0) {
      this.#finishJob();
      this.#peers.finishJob(false);
      this.#flush();
    }
  }

  #finishJob(): boolean {
    if (this.#storage.jobCount === 0) return false;
    const fails = this.#dice.below(6) === 0;
    const finished = this.#storage.finish((count) => this.#dice.below(count), fails);
    this.cache.finishDiskJob(finished);
    return true;
  }

  /** A step whose results never come: others may evict what it made known before it fails. */
  #failStep(): boolean {
    const log = new IntList();
    if (!this.#admit(log)) return false;
    for (const sequence of this.#live.filter((one) => one.isVoid)) {
      if (this.#dice.below(2) === 0) this.#leave(sequence);
    }
    if (this.#dice.below(2) === 0) this.#press();
    this.cache.forgetPublished(log);
    for (const sequence of this.#live) sequence.mayBeForgotten = true;
    for (const sequence of this.#live.filter((one) => one.isVoid)) this.#leave(sequence);
    return true;
  }

  #truncate(): boolean {
    const { scope, tokens } = this.#prompts.known() ?? this.#prompts.draw();
    const keep = this.#dice.below(tokens.length);
    return this.cache.truncate(scope, Int32Array.from(tokens), keep) > 0;
  }

  /** Seldom, all sequences end first: only then can everything be forgotten. */
  #reset(): boolean {
    if (this.cache.reset()) return true;
    if (this.#dice.below(8) > 0) return false;
    while (this.#live.length > 0) this.#leave(this.#live[0]);
    this.#peers.endAll();
    this.#finishJobs();
    return this.cache.reset();
  }

  /** What no sequence holds is forgotten; what one holds stays, as far as all before it does. */
  #forget(): boolean {
    if (this.#dice.below(4) > 0) return false;
    const { cached, held } = this.cache.poolStats();
    this.cache.forgetCached();
    const after = this.cache.poolStats();
    if (after.cached > 0 || after.held !== held) throw new Error("Forgot too little, or too much");
    if (this.cache.hasWindow) for (const sequence of this.#live) sequence.mayBeForgotten = true;
    return cached > 0;
  }

  /** What is found of a prompt has its contents, wherever it is. */
  #look(): boolean {
    const sequence = new PretendSequence(this.#prompts.draw());
    const { table, tokens } = sequence;
    const match = this.cache.match(table.scope, tokens.view(), table.keys);
    this.#checks.match(sequence, match);
    return match.tokens > 0;
  }

  /** A step's moves, and after them the jobs that may need them. */
  #flush(): void {
    const peerJobs = this.cache.peers.takeJobs();
    this.#storage.move(this.cache.takeMoves());
    this.#storage.start(this.cache.takeDiskJobs());
    this.#peers.start(peerJobs);
  }

  /** All that must be true between operations. */
  #check(): void {
    this.#flush();
    this.#checks.books(this.#live);
    this.#checks.follow();
    this.#done++;
    if (this.#done % MIRROR_EVERY === 0) this.#checks.mirror();
    if (this.#dice.below(SLOW_READER_EVERY) === 0) this.#checks.followSlowly();
  }

  /** Writes what is computed up to `end`. */
  #compute(sequence: PretendSequence, end: number): void {
    const { table, digests } = sequence;
    const { blockTokens } = this.#shape;
    for (let position = sequence.computed; position < end; position++) {
      const index = Math.floor(position / blockTokens);
      if (table.parts.some((part) => this.cache.holders(part.get(index)) > 1)) {
        this.#checks.sharing(sequence, position, this.#live);
      }
      const digest = sequence.isVoid ? Number.NaN : (digests[position] ?? Number.NaN);
      for (const [group, part] of table.parts.entries()) {
        this.#storage.write(part.get(index), position % blockTokens, digestIn(digest, group));
      }
    }
    sequence.computed = end;
  }

  /** Others that hold a block see the same contents in it, as within one step. */
  #any(fits: (one: PretendSequence) => boolean = () => true): PretendSequence | null {
    return this.#dice.pick(this.#live.filter(fits));
  }
}
