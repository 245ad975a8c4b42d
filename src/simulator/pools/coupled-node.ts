/** A node that does both in one batch, by the production scheduler and cache. */
import { KvCache } from "#kvcache";
import {
  NO_STOP_RULES,
  Scheduler,
  SchedulerConfig,
  Sequence,
  SequenceGroup,
  type SequenceUpdate,
  type StepPlan,
  sequenceId,
} from "#scheduler";
import type { SimClock } from "../sim-clock.ts";
import { type NodeCosts, promptPartMs } from "./node-costs.ts";
import { StepLoop } from "./step-loop.ts";

/** A request from its prompt to its last token. */
export interface CoupledJob {
  readonly id: string;
  /** A number per block that names it and all before it. */
  readonly ids: Int32Array;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Its first step begins: so many tokens were there. */
  begun(cachedTokens: number): void;
  token(): void;
  done(): void;
}

/** How a coupled node mixes prompts with decoding. */
export interface CoupledRules {
  /** Most tokens of a step: those of prompts are what decoding leaves. */
  readonly stepTokens: number;
  /** Off: each prompt in one step, behind which all that decodes waits. */
  readonly chunkedPrefill: boolean;
  readonly prefixCaching: boolean;
}

export interface CoupledNodeParts {
  readonly clock: SimClock;
  readonly costs: NodeCosts;
  readonly blockTokens: number;
  readonly sequencesMax: number;
  readonly rules: CoupledRules;
}

const QUEUE_MAX = 100_000_000;
/** Without chunks a step takes whatever prompts there are. */
const WHOLE_PROMPTS = 1_000_000_000;

/**
 * Prompts and decoding share the device's blocks, which are the trace's, and its steps. Weights
 * are read once for all of a step: behind what prompts compute they cost nothing.
 */
export class CoupledNode {
  readonly #parts: CoupledNodeParts;
  readonly #scheduler: Scheduler;
  readonly #loop: StepLoop;
  readonly #running = new Map<Sequence, CoupledJob>();
  #nextSequence = 1;

  constructor(parts: CoupledNodeParts) {
    const { clock, costs, blockTokens, sequencesMax, rules } = parts;
    const { chunkedPrefill, prefixCaching } = rules;
    const stepTokensMax = chunkedPrefill
      ? Math.max(rules.stepTokens, sequencesMax)
      : Math.max(WHOLE_PROMPTS, sequencesMax);
    const blocks = Math.max(1, Math.floor(costs.deviceTokens / blockTokens));
    this.#parts = parts;
    this.#scheduler = new Scheduler({
      config: SchedulerConfig.parse({
        ...{ stepTokensMax, runningSequencesMax: sequencesMax, chunkedPrefill },
        ...{ waitingSequencesMax: QUEUE_MAX, preemption: "recompute" },
      }),
      cache: new KvCache({ blocks, blockTokens, prefixCaching, evictionPolicy: "lru" }),
      contextTokensMax: blocks * blockTokens,
    });
    this.#loop = new StepLoop({
      ...{ clock, scheduler: this.#scheduler },
      begun: (plan) => this.#begun(plan),
      committed: (updates) => this.#committed(updates),
    });
  }

  get busyMs(): number {
    return this.#loop.busyMs;
  }

  /** Requests that wait or run. */
  get requests(): number {
    return this.#running.size;
  }

  /** Whether a request fits the device at all. */
  fits({ inputTokens, outputTokens }: Pick<CoupledJob, "inputTokens" | "outputTokens">): boolean {
    return inputTokens + outputTokens <= this.#scheduler.contextTokensMax;
  }

  submit(job: CoupledJob): void {
    const { clock, blockTokens } = this.#parts;
    const sequence = new Sequence({
      id: sequenceId(this.#nextSequence++),
      requestId: job.id,
      promptTokenIds: promptOf(job, blockTokens),
      stop: { ...NO_STOP_RULES, maxTokens: Math.max(job.outputTokens, 1) },
      arrivalMs: clock.nowMs(),
    });
    this.#running.set(sequence, job);
    this.#scheduler.add(SequenceGroup.of(sequence));
    this.#loop.wake();
  }

  #begun(plan: StepPlan): number {
    const { costs } = this.#parts;
    let promptMs = 0;
    let sequences = 0;
    let contextTokens = 0;
    for (const { sequence, start, count, admission } of plan.items) {
      if (admission === null && count === 1 && start >= sequence.promptLength) {
        sequences++;
        contextTokens += start + count;
        continue;
      }
      promptMs += promptPartMs(costs, start, start + count);
      if (admission === null) continue;
      promptMs += costs.promptMs;
      // One that was preempted begins again: it is told once.
      if (sequence.preemptions === 0) this.#running.get(sequence)?.begun(start);
    }
    const decodingMs = costs.decodingMs * sequences + costs.contextTokenMs * contextTokens;
    const weightsMs = sequences > 0 ? costs.decodeStepMs : costs.prefillStepMs;
    return Math.max(weightsMs, promptMs) + decodingMs;
  }

  #committed(updates: readonly SequenceUpdate[]): void {
    for (const { sequence, finished } of updates) {
      const job = this.#running.get(sequence);
      if (job === undefined) continue;
      job.token();
      if (!finished) continue;
      this.#running.delete(sequence);
      job.done();
    }
  }
}

/** Tokens that are equal where the trace's blocks are. */
function promptOf({ ids, inputTokens }: CoupledJob, blockTokens: number): Int32Array {
  const tokens = new Int32Array(inputTokens);
  for (let at = 0; at * blockTokens < inputTokens; at++) {
    tokens.fill(ids[at] ?? 0, at * blockTokens, (at + 1) * blockTokens);
  }
  return tokens;
}
