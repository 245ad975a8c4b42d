/** Random requests, calls and failures over a scheduler and a pretend device. */
import { seedFrom, uniformAt } from "#base";
import { type BlockMove, type CacheWindow, type DiskJob, EVICTION_POLICIES } from "#kvcache";
import {
  isEmptyPlan,
  type PlannedSequence,
  type Sequence,
  type SequenceGroup,
  type StepPlan,
  sequenceId,
} from "#scheduler";
import { Harness } from "../scheduler/harness.ts";
import { type DeviceItem, digestsOf, PretendDevice } from "./pretend-device.ts";

const BLOCK_TOKENS = 4;
const WAITING_MAX = 12;

interface BegunStep {
  readonly plan: StepPlan;
  /** By item, then by group of layers. */
  readonly tables: readonly (readonly (readonly number[])[])[];
  readonly moves: readonly BlockMove[];
  readonly jobs: readonly DiskJob[];
}

/** What a life met; tests ask for enough of each. */
export interface LifeCounts {
  ended: number;
  failures: number;
  swaps: number;
  returns: number;
  copies: number;
  forks: number;
  regroupings: number;
  loads: number;
  /** Groups that gave way to others while they were paused. */
  yields: number;
  /** Drafted tokens that were verified, and of these that were confirmed. */
  drafted: number;
  confirmed: number;
}

/** One engine's life. `live` does one random thing and checks the books behind it. */
export class RandomLife {
  readonly harness: Harness;
  readonly counts: LifeCounts = {
    ...{ ended: 0, failures: 0, swaps: 0, returns: 0 },
    ...{ copies: 0, forks: 0, regroupings: 0, loads: 0, yields: 0 },
    ...{ drafted: 0, confirmed: 0 },
  };
  readonly #device: PretendDevice;
  readonly #seed: { low: number; high: number };
  readonly #live: SequenceGroup[] = [];
  readonly #begun: BegunStep[] = [];
  readonly #jobs: DiskJob[] = [];
  /** Steps that begin before the oldest is committed. */
  readonly #ahead: number;
  #draws = 0;

  constructor(seed: number) {
    this.#seed = seedFrom(seed);
    const groups = 1 + (this.#below(3) === 0 ? 1 + this.#below(2) : 0);
    const ofGroup = 6 + this.#below(20);
    const blocks = groups * ofGroup;
    const hostBlocks = this.#below(4) === 0 ? 0 : groups * (2 + this.#below(16));
    const noDisk = hostBlocks === 0 || this.#below(2) === 0;
    const diskBlocks = noDisk ? 0 : groups * (4 + this.#below(30));
    const windows = Array.from({ length: groups }, (_, group) =>
      group > 0 || this.#below(3) === 0 ? this.#window(ofGroup) : null,
    );
    this.#ahead = seed % 3;
    this.#device = new PretendDevice({
      blocks: blocks + hostBlocks + diskBlocks,
      blockTokens: BLOCK_TOKENS,
      windows,
    });
    this.harness = new Harness({
      ...{ blocks, hostBlocks, diskBlocks, windows, blockTokens: BLOCK_TOKENS },
      partialReuse: this.#below(4) > 0,
      copyOnPartialReuse: this.#below(4) > 0,
      prefixCaching: this.#below(6) > 0,
      stepTokensMax: 8 + this.#below(40),
      runningSequencesMax: 2 + this.#below(6),
      longPrefillTokensMax: this.#below(2) === 0 ? null : 5 + this.#below(10),
      policy: this.#below(3) === 0 ? "priority" : "fcfs",
      preemption: (["auto", "swap", "recompute"] as const)[this.#below(3)] ?? "auto",
      waitingSequencesMax: WAITING_MAX,
      overlapSteps: this.#ahead > 0,
      evictionPolicy: EVICTION_POLICIES[seed % EVICTION_POLICIES.length] ?? "lru",
      estimates: {
        recomputeMs: (tokens) => (tokens % 7 === 0 ? null : tokens),
        swapMs: (moved) => 3 * moved,
        loadPays: ({ start }) => start % 3 > 0 || start === 0,
      },
    });
  }

  /** One random operation, then the audit of the books. */
  live(): void {
    const dice = this.#below(100);
    if (dice < 25) this.#add();
    else if (dice < 32) this.#abortSomeone();
    else if (dice < 33) this.harness.scheduler.preemptAll();
    else if (dice < 35) this.harness.scheduler.resetPrefixCache();
    else if (dice < 38) this.#prioritiseSomeone();
    else if (dice < 46) this.#pauseOrResume();
    else if (dice < 48) this.#holdOrRelease();
    else this.#step();
    if (this.#below(2) === 0) this.#workOnDisk();
    this.harness.scheduler.audit();
    this.#bury();
  }

  /** Steps until no sequence lives and no job is left. */
  endAll(): void {
    for (const group of this.#live) {
      for (const { id } of group.sequences) this.harness.scheduler.grammarReady(id);
      this.harness.scheduler.resume(group);
      for (const sequence of group.sequences) sequence.held = false;
    }
    for (let turn = 0; this.#live.length + this.#jobs.length + this.#begun.length > 0; turn++) {
      if (turn > 20_000) throw new Error("Sequences do not end");
      this.#step();
      this.#workOnDisk();
      this.harness.scheduler.audit();
      this.#bury();
    }
  }

  /** Small against the pool in half of the lives that have one. */
  #window(blocks: number): CacheWindow {
    const tokens = 3 + this.#below(this.#below(2) === 0 ? 8 : blocks * BLOCK_TOKENS);
    return { tokens, sinkTokens: this.#below(2) === 0 ? 0 : this.#below(Math.min(6, tokens)) };
  }

  #add(): void {
    const { scheduler } = this.harness;
    const dice = this.#below(6);
    const size = dice < 3 ? 1 : 1 + this.#below(dice === 3 ? 9 : 4);
    if (scheduler.stats().waiting + size > WAITING_MAX) return;
    const most = Math.min(40, scheduler.contextTokensMax - 1);
    // Few tokens and few scopes: prefixes meet often.
    const prompt = Array.from({ length: 1 + this.#below(most) }, (_, at) =>
      this.#below(at % 8 === 5 ? 2 : 1),
    );
    const kind = dice === 5 ? "beams" : "samples";
    const group = this.harness.makeGroup(prompt, size, {
      kind,
      priority: this.#below(3),
      cacheSalt: this.#below(4) === 0 ? "salt" : null,
      skipReadingPrefixCache: this.#below(10) === 0,
      awaitsGrammar: this.#below(10) === 0,
      retention: this.#below(3) > 0 ? null : this.#retention(),
      stop: { maxTokens: 1 + this.#below(kind === "beams" ? 12 : 30), stopTokenIds: new Set([9]) },
    });
    try {
      scheduler.add(group);
    } catch (error) {
      if (kind !== "beams") throw error;
      return;
    }
    this.#live.push(group);
  }

  #retention() {
    const some = () => ({
      priority: this.#below(2) === 0 ? null : this.#below(101),
      durationMs: this.#below(2) === 0 ? null : 1 + this.#below(40),
    });
    return { prompt: Array.from({ length: this.#below(8) }, some), decode: some() };
  }

  #someone(): Sequence | null {
    const group = this.#live[this.#below(Math.max(1, this.#live.length))];
    return group?.sequences[this.#below(group.sequences.length)] ?? null;
  }

  #abortSomeone(): void {
    const { scheduler } = this.harness;
    const sequence = this.#someone();
    if (sequence === null) return;
    const dice = this.#below(6);
    if (dice < 2) scheduler.grammarReady(sequence.id);
    else if (dice < 4 && !sequence.isBeam) scheduler.abort(sequence.id);
    else scheduler.finishGroup(sequence.group, { reason: "abort", stopReason: null });
  }

  /** Whose reader is behind; three in four of them read on soon. */
  #pauseOrResume(): void {
    const { scheduler } = this.harness;
    const group = this.#someone()?.group;
    if (group === undefined) return;
    if (group.paused || this.#below(4) === 0) scheduler.resume(group);
    else scheduler.pause(group);
  }

  #holdOrRelease(): void {
    const sequence = this.#someone();
    if (sequence !== null && !sequence.isBeam) sequence.held = !sequence.held;
  }

  /** Nothing is computed for paused groups, and none of them holds up who could run. */
  #checkPaused(plan: StepPlan): void {
    const starts = [...plan.items.map(({ sequence }) => sequence), ...plan.returning];
    if (starts.some(({ group }) => group.paused)) throw new Error("A paused group is planned");
    const { preempted } = plan;
    const goOn = plan.items.filter(
      ({ admission, forkOf }) => admission === null && forkOf === null,
    );
    const returning = new Set(plan.returning);
    if (goOn.some(({ sequence }) => sequence.held && !returning.has(sequence))) {
      throw new Error("A held sequence is planned");
    }
    this.counts.yields += preempted.filter(({ sequences }) => sequences[0]?.group.paused).length;
    if (!isEmptyPlan(plan) || this.#begun.length > 0) return;
    const waiting = this.#live.flatMap(({ paused, live }) => (paused ? [] : live));
    // A waiting sequence may lack what a held one has.
    if (this.#live.some(({ live }) => live.some(({ held }) => held))) return;
    const ready = waiting.some(({ state }) => state.phase !== "waiting" || state.for === "turn");
    if (ready) throw new Error("Nothing is planned for those that could run");
  }

  #prioritiseSomeone(): void {
    const sequence = this.#someone();
    if (sequence === null) return;
    const { blockTable } = sequence;
    const start = this.#below(blockTable.length + 1);
    this.harness.cache.prioritise(blockTable, start, blockTable.length, this.#below(101));
  }

  #step(): void {
    const { scheduler, cache } = this.harness;
    // A step is planned when those that verify drafts are committed.
    while (this.#begun.some(({ plan }) => verifies(plan))) this.#finishOldest();
    this.#propose();
    const plan = scheduler.plan(this.#below(3) === 0 ? 2 + this.#below(12) : undefined);
    if (plan.tokens !== plan.items.reduce((sum, item) => sum + item.count + item.drafted, 0)) {
      throw new Error("A plan's tokens are not the sum of its counts");
    }
    this.#checkPaused(plan);
    this.harness.nowMs++;
    const before = cache.stats().copiedBlocks;
    scheduler.begin(plan, this.harness.nowMs);
    scheduler.audit();
    for (const item of plan.items) this.#checkWrites(item);
    this.counts.copies += cache.stats().copiedBlocks - before;
    this.counts.swaps += plan.preempted.filter(({ mode }) => mode === "swap").length;
    this.counts.returns += plan.returning.length;
    this.counts.forks += plan.items.filter(({ forkOf }) => forkOf !== null).length;
    this.counts.loads += plan.loads.length;
    const tables = plan.items.map(({ sequence }) =>
      sequence.blockTable.parts.map((part) => [...part.view()]),
    );
    this.#begun.push({ plan, tables, moves: cache.takeMoves(), jobs: cache.takeDiskJobs() });
    if (this.#below(10) === 0) this.#abortSomeone();
    if (this.#below(25) === 0) this.#failSome();
    else if (this.#begun.length > this.#ahead) this.#finishOldest();
  }

  /** Some sequences have drafts, wanted or not. */
  #propose(): void {
    for (const { id } of this.#live.flatMap(({ live }) => live)) {
      if (this.#below(3) !== 0) continue;
      const drafts = this.#below(9);
      this.harness.scheduler.propose(id, drafts, Math.floor(drafts / 2));
    }
  }

  /** No position is written in a block that another table holds with another token there. */
  #checkWrites({ sequence, start, count }: PlannedSequence): void {
    const first = Math.floor(start / BLOCK_TOKENS);
    for (const other of this.#live.flatMap(({ sequences }) => sequences)) {
      const { blockTable, computedTokens, tokens } = other;
      const end = Math.min(start + count, computedTokens, sequence.tokens.length, tokens.length);
      for (let index = first; index * BLOCK_TOKENS < end; index++) {
        if (blockTable.get(index) !== sequence.blockTable.get(index)) continue;
        if (!blockTable.holds(index) || other === sequence) continue;
        const from = Math.max(start, index * BLOCK_TOKENS);
        const to = Math.min(end, (index + 1) * BLOCK_TOKENS);
        const written = sequence.tokens.view(from, to);
        if (tokens.view(from, to).some((token, place) => token !== written[place])) {
          throw new Error(`Block ${index} is written while another table holds it`);
        }
      }
    }
  }

  /** Moves are carried out; nothing else is written, so none of it must be found. */
  #failSome(): void {
    for (let before = this.#below(this.#begun.length); before > 0; before--) this.#finishOldest();
    const failed = this.#begun.splice(0);
    const [first] = failed;
    if (first === undefined) return;
    for (const step of failed) this.#startStep(step);
    this.harness.scheduler.fail(first.plan);
    this.counts.failures++;
  }

  #startStep({ moves, jobs }: BegunStep): void {
    this.#device.move(moves);
    this.#jobs.push(...jobs);
  }

  #finishOldest(): void {
    const step = this.#begun.shift();
    if (step === undefined) return;
    this.#startStep(step);
    const drawn = step.plan.items.map((item) => {
      const { sequence, start, count, samples } = item;
      if (samples && !sequence.finished && sequence.tokens.length !== start + count) {
        throw new Error("A token is drawn for another place than the next");
      }
      if (sequence.isBeam) return null;
      return samples ? this.#draw(item.drafted) : [];
    });
    this.#device.run(
      step.plan.items.map((item, index) =>
        deviceItem(item, step.tables[index], drawn[index] ?? []),
      ),
    );
    this.harness.scheduler.commit(step.plan, drawn, this.harness.nowMs);
    this.#continueBeams(step.plan);
  }

  /** Each search of the step goes on at random, with all its beams or one less, or is over. */
  #continueBeams({ items }: StepPlan): void {
    const drew = items.filter(({ sequence, samples }) => samples && sequence.isBeam);
    for (const group of new Set(drew.map(({ sequence }) => sequence.group))) {
      const beams = group.live;
      const [first] = beams;
      if (first === undefined) continue;
      if (drew.filter(({ sequence }) => sequence.group === group).length < beams.length) {
        throw new Error("A search draws with some of its beams");
      }
      const { contextTokensMax } = this.harness.scheduler;
      const isLongest = first.tokens.length + 1 >= contextTokensMax;
      if (isLongest || first.generatedTokens + 1 >= (first.stop.maxTokens ?? 0)) {
        this.harness.scheduler.finishGroup(group, { reason: "length", stopReason: null });
        continue;
      }
      const count = beams.length - (beams.length > 1 && this.#below(8) === 0 ? 1 : 0);
      const next = Array.from({ length: count }, () => ({
        parent: beams[this.#below(beams.length)] ?? first,
        tokenId: this.#below(3),
      }));
      this.harness.scheduler.continueBeams(group, next, this.harness.nowMs);
      this.counts.regroupings++;
    }
  }

  /** Some jobs end, in order; now and then one fails. */
  #workOnDisk(): void {
    for (const job of this.#jobs.splice(0, 1 + this.#below(4))) {
      const ok = this.#device.doJob(job) && this.#below(20) > 0;
      if (job.kind === "delete") continue;
      const key = this.harness.cache.finishDiskJob({ job, ok });
      if (key !== null) this.harness.scheduler.loadDone(sequenceId(key));
    }
  }

  /** One token, or two where no step behind relies on there being one; more where drafts allow. */
  #draw(drafted: number): number[] {
    const several = drafted > 0 ? drafted + 1 : this.#ahead > 0 ? 1 : 2;
    const count = 1 + this.#below(several);
    if (drafted > 0) {
      this.counts.drafted += drafted;
      this.counts.confirmed += count - 1;
    }
    return Array.from({ length: count }, () => this.#drawToken());
  }

  #drawToken(): number {
    return this.#below(30) === 0 ? 9 : this.#below(2);
  }

  #bury(): void {
    for (let index = this.#live.length - 1; index >= 0; index--) {
      const group = this.#live[index];
      if (group === undefined || group.live.length > 0) continue;
      this.#live.splice(index, 1);
      this.counts.ended += group.sequences.length;
    }
  }

  #below(limit: number): number {
    return Math.floor(uniformAt(this.#seed, this.#draws++) * limit);
  }
}

function verifies({ items }: StepPlan): boolean {
  return items.some(({ drafted }) => drafted > 0);
}

/** Drafted tokens that the drawn ones confirm are written; in place of the others is garbage. */
function deviceItem(
  item: PlannedSequence,
  tables: readonly (readonly number[])[] = [],
  drawn: readonly number[] = [],
): DeviceItem {
  const { sequence, start, count, drafted } = item;
  const confirmed = drafted === 0 ? [] : drawn.slice(0, -1);
  return { tables, digests: digestsOf(sequence, confirmed), start, count: count + drafted };
}
