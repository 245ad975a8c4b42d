/** A node that decodes: the production scheduler and block books, token by token. */
import { KvCache } from "#kvcache";
import {
  NO_STOP_RULES,
  Scheduler,
  SchedulerConfig,
  Sequence,
  SequenceGroup,
  type SequenceOptions,
  type SequenceUpdate,
  type StepPlan,
  sequenceId,
} from "#scheduler";
import type { SimClock } from "../sim-clock.ts";
import { decodeStepMs, type NodeCosts } from "./node-costs.ts";
import { StepLoop } from "./step-loop.ts";

/** A request whose keys and values are there, and whose first token, too. */
export interface DecodeJob {
  readonly id: string;
  readonly inputTokens: number;
  /** The first one included; 2 or more. */
  readonly outputTokens: number;
  readonly priority: number;
  token(atMs: number): void;
  done(): void;
}

/** A step as a node would measure it. */
export interface MeasuredStep {
  readonly sequences: number;
  readonly contextTokens: number;
  readonly ms: number;
}

export interface DecodeNodeParts {
  readonly clock: SimClock;
  readonly costs: NodeCosts;
  readonly blockTokens: number;
  readonly sequencesMax: number;
  readonly contextTokensMax: number;
  /** Now and then, as a router would be told of a step. */
  readonly onReport: (step: MeasuredStep) => void;
  /** Every step waits for its turn among the events of the fleet, for comparison. Default: off. */
  readonly stepsOneByOne?: boolean;
}

const QUEUE_MAX = 100_000_000;
/** A whole prompt joins at once: its keys and values are there. */
const STEP_TOKENS = 1_000_000_000;
const FIRST_TOKEN = [0];
const STEPS_PER_REPORT = 64;

/**
 * Blocks are counted as in the engine, with room for each new token and preemption where there is
 * none; contents are not looked up, since they come from the nodes that computed them.
 */
export class DecodeNode {
  readonly #parts: DecodeNodeParts;
  readonly #cache: KvCache;
  readonly #scheduler: Scheduler;
  readonly #loop: StepLoop;
  #requests = 0;
  #steps = 0;
  /** Of the step that began last. */
  #contextTokens = 0;
  /** Prompts of any length are views of it: their tokens are never read. */
  readonly #prompt: Int32Array;
  #nextSequence = 1;

  constructor(parts: DecodeNodeParts) {
    const { clock, costs, blockTokens, sequencesMax, contextTokensMax } = parts;
    const blocks = Math.max(1, Math.floor(costs.deviceTokens / blockTokens));
    this.#parts = parts;
    this.#prompt = promptOf(contextTokensMax);
    this.#cache = new KvCache({
      ...{ blocks, blockTokens, prefixCaching: false, evictionPolicy: "lru" },
    });
    this.#scheduler = new Scheduler({
      config: SchedulerConfig.parse({
        ...{ stepTokensMax: STEP_TOKENS, runningSequencesMax: sequencesMax },
        ...{ waitingSequencesMax: QUEUE_MAX, policy: "priority", preemption: "recompute" },
      }),
      cache: this.#cache,
      contextTokensMax,
    });
    this.#loop = new StepLoop({
      ...{ clock, scheduler: this.#scheduler },
      begun: (plan) => this.#begun(plan),
      committed: (updates, atMs) => this.#committed(updates, atMs),
      sureUntil: (plan, endMs) => this.#sureUntil(plan, endMs),
    });
  }

  get busyMs(): number {
    return this.#loop.busyMs;
  }

  /** Steps that ended without an event of their own. */
  get stepsPassed(): number {
    return this.#loop.passed;
  }

  /** Requests that decode or wait for room. */
  get requests(): number {
    return this.#requests;
  }

  /** Whether a request fits the device at all. */
  fits({ inputTokens, outputTokens }: Pick<DecodeJob, "inputTokens" | "outputTokens">): boolean {
    return inputTokens + outputTokens <= this.#scheduler.contextTokensMax;
  }

  submit(job: DecodeJob): void {
    const sequence = new DecodingSequence(job, {
      id: sequenceId(this.#nextSequence++),
      requestId: job.id,
      promptTokenIds: this.#prompt.subarray(0, job.inputTokens),
      generatedTokenIds: FIRST_TOKEN,
      stop: { ...NO_STOP_RULES, maxTokens: job.outputTokens },
      arrivalMs: this.#parts.clock.nowMs(),
      priority: job.priority,
    });
    this.#loop.catchUp();
    this.#requests++;
    this.#scheduler.add(SequenceGroup.of(sequence));
    this.#loop.wake();
  }

  #begun(plan: StepPlan): number {
    let contextTokens = 0;
    for (const { start, count } of plan.items) contextTokens += start + count;
    const { costs, onReport } = this.#parts;
    const sequences = plan.items.length;
    const ms = decodeStepMs(costs, sequences, contextTokens);
    this.#contextTokens = contextTokens;
    if (this.#steps++ % STEPS_PER_REPORT === 0) onReport({ sequences, contextTokens, ms });
    return ms;
  }

  /** Steps follow that decode the same requests, one token each, until one of these ends. */
  #sureUntil(plan: StepPlan, endMs: number): number {
    const { costs } = this.#parts;
    const sequences = plan.items.length;
    const steps = this.#sureSteps(plan);
    let atMs = endMs;
    let tokens = this.#contextTokens;
    for (let step = 1; step < steps; step++) {
      tokens += sequences;
      atMs += decodeStepMs(costs, sequences, tokens);
    }
    return atMs;
  }

  /** The step that has begun and those that are sure to follow it. */
  #sureSteps({ items }: StepPlan): number {
    // What waits for room may join any step.
    if (items.length !== this.#requests || this.#parts.stepsOneByOne === true) return 1;
    // The step that is reported begins at its own time: others read what it teaches.
    let steps = 1 + ((STEPS_PER_REPORT - (this.#steps % STEPS_PER_REPORT)) % STEPS_PER_REPORT);
    for (const { sequence, samples } of items) {
      if (!samples || !(sequence instanceof DecodingSequence)) return 1;
      const room = this.#scheduler.contextTokensMax - sequence.promptLength;
      const most = Math.min(sequence.job.outputTokens, room);
      steps = Math.min(steps, most - sequence.generatedTokens);
    }
    // Each may begin one block more than it fills; where there are too few, one may be preempted.
    const blocks = items.length * (1 + Math.floor(steps / this.#parts.blockTokens));
    return blocks <= this.#cache.availableBlocks ? steps : 1;
  }

  #committed(updates: readonly SequenceUpdate[], atMs: number): void {
    for (const { sequence, finished } of updates) {
      if (!(sequence instanceof DecodingSequence)) continue;
      const { job } = sequence;
      job.token(atMs);
      if (!finished) continue;
      this.#requests--;
      job.done();
    }
  }
}

/** Tokens come by the million: each finds its request without a look-up. */
class DecodingSequence extends Sequence {
  readonly job: DecodeJob;

  constructor(job: DecodeJob, options: SequenceOptions) {
    super(options);
    this.job = job;
  }
}

/** One for all nodes of a context. */
const PROMPTS = new Map<number, Int32Array>();

function promptOf(tokens: number): Int32Array {
  const known = PROMPTS.get(tokens);
  if (known !== undefined) return known;
  const made = new Int32Array(tokens);
  PROMPTS.set(tokens, made);
  return made;
}
