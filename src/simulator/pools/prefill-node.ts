/** A node that computes prompts: the production scheduler and cache, a trace's blocks as tokens. */
import { IntList } from "#base";
import type { KvChange } from "#cluster";
import { BlockTable, KvCache } from "#kvcache";
import {
  NO_STOP_RULES,
  Scheduler,
  SchedulerConfig,
  Sequence,
  SequenceGroup,
  type StepPlan,
  sequenceId,
} from "#scheduler";
import type { SimClock } from "../sim-clock.ts";
import { kvChangesOf } from "../sim-kv-changes.ts";
import { type NodeCosts, promptPartMs } from "./node-costs.ts";
import { StageTimes } from "./stage-times.ts";
import { StepLoop } from "./step-loop.ts";

/** A prompt. */
export interface PrefillJob {
  readonly id: string;
  /** A number per block that names it and all before it. */
  readonly ids: Int32Array;
  readonly inputTokens: number;
  /** Smaller ones first. */
  readonly priority: number;
  /** Its first step begins: so many tokens were there. */
  begun(cachedTokens: number): void;
  /** It is computed, in so many ms of the node's own time. */
  done(ms: number): void;
}

export interface PrefillNodeParts {
  readonly clock: SimClock;
  readonly costs: NodeCosts;
  /** Tokens that a block of the trace stands for. */
  readonly blockTokens: number;
  /** Most tokens of a step. */
  readonly chunkTokens: number;
  /** Machines that its layers are spread over; each chunk goes through all. Default: 1. */
  readonly stages?: number;
  readonly onChanges: (changes: readonly KvChange[]) => void;
}

interface Running {
  readonly job: PrefillJob;
  /** A prefix that was fetched for it, kept until it begins. */
  readonly lease: BlockTable | null;
  ms: number;
}

/** Of the cache's events: blocks are its tokens. */
export const POOL_SCOPE = { model: "pool", blockTokens: 1 } as const;
const QUEUE_MAX = 100_000_000;
/** Times that differ by rounding alone. */
const SAME_MS = 1e-6;

/**
 * A block of the trace is one token of the scheduler, which names all before it: prompts of 100,000
 * tokens are 200 of them, and finding, evicting and publishing are the engine's own. A step's time
 * is that of the tokens that its blocks stand for.
 */
export class PrefillNode {
  readonly cache: KvCache;
  readonly #parts: PrefillNodeParts;
  readonly #scheduler: Scheduler;
  readonly #loop: StepLoop;
  readonly #running = new Map<Sequence, Running>();
  readonly #tokens = new IntList();
  readonly #stages: StageTimes;
  /** When the last step left the last stage. */
  #endMs = Number.NEGATIVE_INFINITY;
  #nextSequence = 1;

  constructor(parts: PrefillNodeParts) {
    const { clock, costs, blockTokens, chunkTokens } = parts;
    const blocks = Math.max(1, Math.floor(costs.cacheTokens / blockTokens));
    const stepBlocks = Math.max(1, Math.floor(chunkTokens / blockTokens));
    this.#parts = parts;
    this.#stages = new StageTimes(parts.stages ?? 1);
    this.cache = new KvCache({
      ...{ blocks, blockTokens: 1, evictionPolicy: "lru" },
      ...{ partialReuse: false, events: "v1_block_key" },
    });
    this.#scheduler = new Scheduler({
      config: SchedulerConfig.parse({
        ...{ stepTokensMax: stepBlocks, runningSequencesMax: Math.min(stepBlocks, 8) },
        ...{ waitingSequencesMax: QUEUE_MAX, policy: "priority", preemption: "recompute" },
      }),
      cache: this.cache,
      contextTokensMax: blocks + 1,
    });
    this.#loop = new StepLoop({
      ...{ clock, scheduler: this.#scheduler },
      begun: (plan) => this.#begun(plan),
      committed: (updates) => {
        this.#tellChanges();
        for (const { sequence } of updates) this.#done(sequence);
      },
    });
  }

  get busyMs(): number {
    return this.#loop.busyMs;
  }

  /** Prompts that wait or are computed. */
  get prompts(): number {
    return this.#running.size;
  }

  /** Whether a prompt fits the cache at all. */
  fits(job: Pick<PrefillJob, "ids">): boolean {
    return job.ids.length < this.#scheduler.contextTokensMax;
  }

  submit(job: PrefillJob, lease: BlockTable | null = null): void {
    const sequence = new Sequence({
      id: sequenceId(this.#nextSequence++),
      requestId: job.id,
      promptTokenIds: job.ids,
      stop: { ...NO_STOP_RULES, maxTokens: 1 },
      arrivalMs: this.#parts.clock.nowMs(),
      priority: job.priority,
    });
    this.#running.set(sequence, { job, lease, ms: 0 });
    this.#scheduler.add(SequenceGroup.of(sequence));
    this.#loop.wake();
  }

  /** Leading blocks of a prompt that are here now. */
  leadingBlocks(ids: Int32Array): number {
    return this.cache.match("", withEnd(ids)).blocks.length;
  }

  /**
   * Stores the first `blocks` blocks of a prompt, which came from another node. They are kept as
   * others are, and not evicted before the returned lease ends; null: there is no room.
   */
  install(ids: Int32Array, blocks: number): BlockTable | null {
    const table = new BlockTable();
    const part = ids.subarray(0, blocks);
    const match = this.cache.match(table.scope, withEnd(part));
    this.cache.adopt(table, match);
    if (!this.cache.allocate(table, part.length - match.blocks.length)) {
      this.cache.release(table);
      return null;
    }
    this.#tokens.clear();
    for (const id of part) this.#tokens.push(id);
    this.cache.publish(table, this.#tokens, part.length);
    this.#tellChanges();
    return table;
  }

  endLease(lease: BlockTable): void {
    this.cache.release(lease);
  }

  #begun(plan: StepPlan): number {
    const { costs, blockTokens } = this.#parts;
    const own = new Map<Running, number>();
    let ms = costs.prefillStepMs;
    for (const { sequence, start, count, admission } of plan.items) {
      const running = this.#running.get(sequence);
      if (running === undefined) continue;
      const { job } = running;
      const first = Math.min(start * blockTokens, job.inputTokens);
      const last = Math.min((start + count) * blockTokens, job.inputTokens);
      let partMs = promptPartMs(costs, first, last);
      if (admission !== null) {
        partMs += costs.promptMs;
        if (running.lease !== null) this.endLease(running.lease);
        job.begun(first);
      }
      own.set(running, partMs);
      ms += partMs;
    }
    const takenMs = this.#passMs(ms);
    for (const [running, partMs] of own) running.ms += partMs * (takenMs / ms);
    return takenMs;
  }

  /**
   * Until a step of so much work has left the last stage. Where work followed work, the first stage
   * began with it before the step ahead had left.
   */
  #passMs(ms: number): number {
    const nowMs = this.#parts.clock.nowMs();
    const follows = Math.abs(nowMs - this.#endMs) < SAME_MS;
    this.#endMs = this.#stages.pass(follows ? this.#stages.firstFreeMs : nowMs, ms);
    return this.#endMs - nowMs;
  }

  #done(sequence: Sequence): void {
    const running = this.#running.get(sequence);
    if (running === undefined) return;
    this.#running.delete(sequence);
    running.job.done(running.ms);
  }

  #tellChanges(): void {
    const changes = kvChangesOf(POOL_SCOPE, this.cache.takeEvents());
    if (changes.length > 0) this.#parts.onChanges(changes);
  }
}

/** A cache leaves a prompt's last token to compute; here all of them count. */
function withEnd(ids: Int32Array): Int32Array {
  const tokens = new Int32Array(ids.length + 1);
  tokens.set(ids);
  tokens[ids.length] = -1;
  return tokens;
}
