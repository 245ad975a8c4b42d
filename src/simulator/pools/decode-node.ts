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
  token(): void;
  done(): void;
}

/** A step as a node would measure it. */
export type StepObserver = (sequences: number, contextTokens: number, ms: number) => void;

export interface DecodeNodeParts {
  readonly clock: SimClock;
  readonly costs: NodeCosts;
  readonly blockTokens: number;
  readonly sequencesMax: number;
  readonly contextTokensMax: number;
  readonly onStep: StepObserver;
}

const QUEUE_MAX = 100_000_000;
/** A whole prompt joins at once: its keys and values are there. */
const STEP_TOKENS = 1_000_000_000;
const FIRST_TOKEN = [0];

/**
 * Blocks are counted as in the engine, with room for each new token and preemption where there is
 * none; contents are not looked up, since they come from the nodes that computed them.
 */
export class DecodeNode {
  readonly #parts: DecodeNodeParts;
  readonly #scheduler: Scheduler;
  readonly #loop: StepLoop;
  #requests = 0;
  /** Prompts of any length are views of it: their tokens are never read. */
  readonly #prompt: Int32Array;
  #nextSequence = 1;

  constructor(parts: DecodeNodeParts) {
    const { clock, costs, blockTokens, sequencesMax, contextTokensMax } = parts;
    const blocks = Math.max(1, Math.floor(costs.deviceTokens / blockTokens));
    this.#parts = parts;
    this.#prompt = promptOf(contextTokensMax);
    this.#scheduler = new Scheduler({
      config: SchedulerConfig.parse({
        ...{ stepTokensMax: STEP_TOKENS, runningSequencesMax: sequencesMax },
        ...{ waitingSequencesMax: QUEUE_MAX, policy: "priority", preemption: "recompute" },
      }),
      cache: new KvCache({ blocks, blockTokens, prefixCaching: false, evictionPolicy: "lru" }),
      contextTokensMax,
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
    this.#requests++;
    this.#scheduler.add(SequenceGroup.of(sequence));
    this.#loop.wake();
  }

  #begun(plan: StepPlan): number {
    let contextTokens = 0;
    for (const { start, count } of plan.items) contextTokens += start + count;
    const { costs, onStep } = this.#parts;
    const ms = decodeStepMs(costs, plan.items.length, contextTokens);
    onStep(plan.items.length, contextTokens, ms);
    return ms;
  }

  #committed(updates: readonly SequenceUpdate[]): void {
    for (const { sequence, finished } of updates) {
      if (!(sequence instanceof DecodingSequence)) continue;
      const { job } = sequence;
      job.token();
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
