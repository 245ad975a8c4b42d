/** Runs steps on the device: begins them, waits for them, and returns them in order. */
import { assert, type Clock } from "#base";
import { stepFailure, type WireError } from "#engine/protocol";
import type { CacheMoves, LoadCost } from "#kvcache";
import {
  isEmptyPlan,
  type PlannedSequence,
  type Scheduler,
  type Sequence,
  type StepPlan,
  sequenceId,
} from "#scheduler";
import { disposeOf } from "./dispose-of.ts";
import type { ItemResult, ModelRunner, StartedStep, StepWork } from "./model-runner.ts";
import { PrefillPace } from "./prefill-pace.ts";
import type { SequenceTask } from "./sequence-task.ts";
import { MovesFailed } from "./step-executor.ts";

/** A step measures the speed of prefill if a prompt has this many tokens and this share of all. */
const PREFILL_TOKENS_MIN = 16;
const PREFILL_SHARE_MIN = 0.9;

/** The bytes behind the scheduler's cache, which move between levels. */
export interface StepMemory {
  readonly cost: Pick<LoadCost, "recordPrefill">;
  /** The moves that plans need, since the last call: they go with the next step. */
  takeMoves(): CacheMoves;
  /** Ids of sequences whose contents were fetched from disk since the last call. */
  takeFinishedLoads(): readonly number[];
}

/** What a pipeline runs steps with. */
export interface StepPipelineParts {
  readonly scheduler: Scheduler;
  readonly runner: ModelRunner;
  /** The bytes behind the scheduler's cache; null: none are moved. */
  readonly memory: StepMemory | null;
  readonly clock: Clock;
  /**
   * Start a step while the one before still runs; must equal the scheduler's `overlapSteps`.
   * Default: false.
   */
  readonly overlapSteps?: boolean;
  /**
   * Most steps that begin while one runs. Default: 1 where steps overlap, else 0. More are of use
   * where parts of a step are computed in several places; sequences whose tokens are being sampled
   * wait then, unless steps overlap.
   */
  readonly stepsAheadMax?: number;
  /** Most ms that prompts may add to a step with decoding sequences. Default: null, no limit. */
  readonly prefillMsMax?: number | null;
}

/** Why a step has no results. */
export interface StepError {
  readonly error: WireError;
  /** Thrown while blocks were reassigned: the bookkeeping must be checked before it is used. */
  readonly inDoubt: boolean;
}

/** A result for a plan, or the error instead of it. */
type OrError<Made> = Made | StepError;

/**
 * Planning threw an error, which does not tell the request that caused it: all requests end. No
 * step is under way then.
 */
export interface UnplannedStep {
  readonly unplanned: WireError;
}

/** A step that the device has completed. It is to be committed, or failed. */
export interface ComputedStep {
  readonly plan: StepPlan;
  readonly outcome: OrError<{ readonly results: readonly ItemResult[] }>;
  /** Tokens of prompts that were admitted with it. */
  readonly admitted: AdmittedTokens;
  readonly computedMs: number;
  /** From its start, or the end of the step before it, to its end. */
  readonly stepMs: number;
  readonly planMs: number;
  /** Since the end of the step before it; null: the engine was idle in between. */
  readonly sinceLastMs: number | null;
}

/** Each prompt counts once: samples and beams fork from it, and resumed sequences do not count. */
export interface AdmittedTokens {
  readonly prompt: number;
  readonly cachedPrompt: number;
}

/** A step that the device may still compute. */
interface StepUnderWay {
  readonly plan: StepPlan;
  readonly computing: OrError<{ readonly started: StartedStep }>;
  /** The next step cannot be planned before its tokens are known. */
  readonly holdsUp: boolean;
  readonly admitted: AdmittedTokens;
  readonly startedMs: number;
  readonly plannedMs: number;
}

const NO_MOVES: CacheMoves = { moves: [], jobs: [], peerJobs: [] };

/**
 * Plans steps, submits them to the device, and waits for them. Where the device runs
 * asynchronously, the next step begins while one is computed: two at a time at most, in order, or
 * as many as `stepsAheadMax` says.
 */
export class StepPipeline {
  readonly #parts: StepPipelineParts;
  readonly #prefillPace: PrefillPace;
  readonly #aheadMax: number;
  /** Steps that began, or could not be planned, before the last one was committed, in order. */
  #ahead: (StepUnderWay | UnplannedStep)[] = [];
  /** When the last step completed: the device has computed the next one since. */
  #computedMs = Number.NEGATIVE_INFINITY;
  /** While a step starts: tasks of sequences that ended meanwhile, which it may still use. */
  #endedTasks: SequenceTask[] | null = null;

  constructor(parts: StepPipelineParts) {
    this.#parts = parts;
    this.#aheadMax = parts.stepsAheadMax ?? (parts.overlapSteps === true ? 1 : 0);
    this.#prefillPace = new PrefillPace(parts.prefillMsMax ?? null);
  }

  /**
   * The next step, computed. Null: there is nothing to do, and none is under way. Never rejects for
   * a failing step.
   */
  async next(
    taskOf: (sequence: Sequence) => SequenceTask,
  ): Promise<ComputedStep | UnplannedStep | null> {
    const step = this.#ahead.shift() ?? (await this.#begin(taskOf));
    if (step === null || "unplanned" in step) {
      this.#computedMs = Number.NEGATIVE_INFINITY;
      return step;
    }
    // The device computes the next step while the host waits for this one and commits it.
    await this.#beginAhead(step, taskOf);
    return await this.#end(step);
  }

  /** Begins as many steps behind `step` as may be under way, up to one that holds up the next. */
  async #beginAhead(
    step: StepUnderWay,
    taskOf: (sequence: Sequence) => SequenceTask,
  ): Promise<void> {
    while (this.#ahead.length < this.#aheadMax) {
      const last = this.#ahead.at(-1) ?? step;
      if ("unplanned" in last || last.holdsUp) return;
      const next = await this.#begin(taskOf);
      if (next === null) return;
      this.#ahead.push(next);
    }
  }

  /** Whether `next` begins a step: what that computes is to be decided before. */
  get begins(): boolean {
    const last = this.#ahead.at(-1) ?? null;
    return last === null || !("unplanned" in last || last.holdsUp);
  }

  /** Whether the next step could not begin before the last one was committed, and can now. */
  get heldUp(): boolean {
    return this.#aheadMax > 0 && this.#ahead.length === 0;
  }

  /**
   * Begins the step that is held up, once the one before was committed: the device computes it
   * while the host passes results on.
   */
  async beginHeldUp(taskOf: (sequence: Sequence) => SequenceTask): Promise<void> {
    assert(this.heldUp, "Cannot begin a step: none is held up");
    const step = await this.#begin(taskOf);
    if (step !== null) this.#ahead.push(step);
  }

  /** Waits for the steps that began ahead and are not needed any more, and returns them. */
  async dropAhead(): Promise<readonly StepPlan[]> {
    const steps = this.#ahead.flatMap((step) => ("unplanned" in step ? [] : [step]));
    this.#ahead = [];
    // If they fail, too, that changes nothing.
    for (const step of steps) await outcomeOf(step);
    return steps.map(({ plan }) => plan);
  }

  /** Frees the task of a sequence that ended, once no step that starts uses it. */
  free(task: SequenceTask): void {
    if (this.#endedTasks === null) disposeOf(task.sampling);
    else this.#endedTasks.push(task);
  }

  async #begin(
    taskOf: (sequence: Sequence) => SequenceTask,
  ): Promise<StepUnderWay | UnplannedStep | null> {
    const { scheduler, clock, memory } = this.#parts;
    const startedMs = clock.nowMs();
    for (const key of memory?.takeFinishedLoads() ?? []) scheduler.loadDone(sequenceId(key));
    const plan = this.#plan();
    if ("unplanned" in plan) return plan;
    if (isEmptyPlan(plan)) {
      await this.moveBlocks();
      return null;
    }
    const failure = this.#changeHands(plan, startedMs);
    // Also moves planned before a failure: the bookkeeping assumes them.
    if (failure !== null) await this.moveBlocks();
    const begunMs = clock.nowMs();
    const admitted = admittedTokens(plan);
    const { items } = plan;
    const tasks = items.map(({ sequence }) => taskOf(sequence));
    const computing = failure ?? (await this.#start(items, tasks));
    // Moves are no part of the time that the step is computed.
    const plannedMs = begunMs + ("error" in computing ? 0 : computing.started.movesMs);
    const holdsUp =
      "error" in computing || items.some((item, place) => holdsUpNext(item, tasks[place]));
    return { plan, computing, holdsUp, admitted, startedMs, plannedMs };
  }

  #plan(): StepPlan | UnplannedStep {
    try {
      return this.#parts.scheduler.plan(this.#prefillPace.tokensMax);
    } catch (error) {
      return { unplanned: stepFailure(error) };
    }
  }

  /** Begins the plan. Null: it began. It cannot fail, so an error is a bug. */
  #changeHands(plan: StepPlan, startedMs: number): StepError | null {
    try {
      this.#parts.scheduler.begin(plan, startedMs);
      return null;
    } catch (error) {
      return { error: stepFailure(error), inDoubt: true };
    }
  }

  /** Carries out moves without a step. Not while one begins. */
  async moveBlocks(): Promise<void> {
    if (this.#parts.memory === null) return;
    const moved = await this.#start([], []);
    assert(!("error" in moved), "Cannot move blocks: the runner failed before they were moved");
  }

  /** Rejects where blocks could not be moved: no step may follow. */
  async #start(
    items: StepWork["items"],
    tasks: StepWork["tasks"],
  ): Promise<OrError<{ readonly started: StartedStep }>> {
    const ended: SequenceTask[] = [];
    this.#endedTasks = ended;
    const moves = this.#parts.memory?.takeMoves() ?? NO_MOVES;
    try {
      return { started: await this.#parts.runner.start({ moves, items, tasks }) };
    } catch (error) {
      if (error instanceof MovesFailed) throw error.cause;
      return { error: stepFailure(error), inDoubt: false };
    } finally {
      this.#endedTasks = null;
      for (const task of ended) disposeOf(task.sampling);
    }
  }

  async #end(step: StepUnderWay): Promise<ComputedStep> {
    const { plan, admitted, startedMs, plannedMs } = step;
    const outcome = await outcomeOf(step);
    const computedMs = this.#parts.clock.nowMs();
    const before = this.#computedMs;
    this.#computedMs = computedMs;
    if ("results" in outcome) this.#measure(plan, computedMs - Math.max(plannedMs, before));
    const stepMs = computedMs - Math.max(startedMs, before);
    const sinceLastMs = Number.isFinite(before) ? computedMs - before : null;
    const planMs = plannedMs - startedMs;
    return { plan, outcome, admitted, computedMs, stepMs, planMs, sinceLastMs };
  }

  /** Where one prompt made up the step, its time measures the cost of computing it again. */
  #measure(plan: StepPlan, ms: number): void {
    this.#prefillPace.record(plan, ms);
    const { memory } = this.#parts;
    for (const { start, count } of plan.items) {
      if (count < PREFILL_TOKENS_MIN || count < plan.tokens * PREFILL_SHARE_MIN) continue;
      memory?.cost.recordPrefill(start, start + count, ms);
    }
  }
}

/** Waits for the device. Never rejects. */
async function outcomeOf({ computing }: StepUnderWay): Promise<ComputedStep["outcome"]> {
  if ("error" in computing) return computing;
  try {
    return { results: await computing.started.finish() };
  } catch (error) {
    return { error: stepFailure(error), inDoubt: false };
  }
}

/** Whether the sequence's next token depends on this step's other than through the model. */
function holdsUpNext(
  { samples, sequence, drafted }: PlannedSequence,
  task: SequenceTask | undefined,
): boolean {
  if (!samples) return false;
  const drafts = drafted > 0 || task?.drafter?.active === true;
  return drafts || sequence.isBeam || task?.sampling?.looksBack === true;
}

function admittedTokens(plan: StepPlan): AdmittedTokens {
  let [prompt, cachedPrompt] = [0, 0];
  for (const { sequence, admission } of plan.items) {
    if (admission === null || sequence.preemptions > 0) continue;
    prompt += sequence.promptLength;
    cachedPrompt += sequence.cachedTokens;
  }
  return { prompt, cachedPrompt };
}
