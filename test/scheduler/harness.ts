/** A scheduler with sequences of made-up tokens, driven a step at a time. */
import { KvCache, type KvCacheShape } from "#kvcache";
import {
  type GroupKind,
  isEmptyPlan,
  NO_STOP_RULES,
  type PlannedSequence,
  Scheduler,
  SchedulerConfig,
  Sequence,
  SequenceGroup,
  type SequenceId,
  type SequenceOptions,
  type SequenceUpdate,
  type StepPlan,
  type StopRules,
  sequenceId,
  type TransferEstimates,
} from "#scheduler";

export interface HarnessOptions extends Partial<SchedulerConfig>, Partial<KvCacheShape> {
  readonly modelContext?: number;
  readonly overlapSteps?: boolean;
  readonly sampledRowsMax?: number;
  readonly estimates?: TransferEstimates | null;
}

export interface SequenceSpec
  extends Partial<Omit<SequenceOptions, "id" | "requestId" | "promptTokenIds" | "stop">> {
  readonly stop?: Partial<StopRules>;
}

/** `count` tokens that no other `seed` shares. */
export const distinct = (seed: number, count: number): number[] =>
  Array.from({ length: count }, (_, index) => seed * 100_000 + index);

export class Harness {
  readonly cache: KvCache;
  readonly scheduler: Scheduler;
  nowMs = 0;
  #nextId = 0;

  constructor(options: HarnessOptions = {}) {
    const {
      blocks = 1000,
      blockTokens = 16,
      prefixCaching = true,
      evictionPolicy = "lru",
      partialReuse = false,
      hostBlocks = 0,
      diskBlocks = 0,
      windows = [null],
      modelContext = 8192,
      overlapSteps = false,
      copyOnPartialReuse = true,
      estimates = null,
      sampledRowsMax,
      ...config
    } = options;
    this.cache = new KvCache({
      ...{ blocks, blockTokens, prefixCaching, evictionPolicy, partialReuse },
      ...{ hostBlocks, diskBlocks, windows, copyOnPartialReuse },
    });
    this.scheduler = new Scheduler({
      config: SchedulerConfig.parse({
        stepTokensMax: 8192,
        runningSequencesMax: Math.min(16, config.stepTokensMax ?? 16),
        ...config,
      }),
      cache: this.cache,
      contextTokensMax: modelContext,
      overlapSteps,
      estimates,
      ...(sampledRowsMax !== undefined && { sampledRowsMax }),
    });
  }

  make(promptTokenIds: readonly number[], spec: SequenceSpec = {}): Sequence {
    const id = this.#nextId++;
    return new Sequence({
      arrivalMs: id,
      ...spec,
      id: sequenceId(id),
      requestId: `request-${id}`,
      promptTokenIds,
      stop: { ...NO_STOP_RULES, ...spec.stop },
    });
  }

  add(promptTokenIds: readonly number[], spec: SequenceSpec = {}): Sequence {
    const sequence = this.make(promptTokenIds, spec);
    this.scheduler.add(SequenceGroup.of(sequence));
    this.scheduler.audit();
    return sequence;
  }

  /** A group that is not added yet. */
  makeGroup(
    promptTokenIds: readonly number[],
    size: number,
    spec: SequenceSpec & { readonly kind?: GroupKind } = {},
  ): SequenceGroup {
    const { kind = "samples", ...rest } = spec;
    const arrivalMs = this.#nextId;
    const sequences = Array.from({ length: size }, () =>
      this.make(promptTokenIds, { arrivalMs, ...rest }),
    );
    return new SequenceGroup({ requestId: `request-${arrivalMs}`, sequences, kind });
  }

  addGroup(...options: Parameters<Harness["makeGroup"]>): SequenceGroup {
    const group = this.makeGroup(...options);
    this.scheduler.add(group);
    this.scheduler.audit();
    return group;
  }

  /** Adds prompts of these lengths that share nothing. */
  addLengths(...lengths: number[]): Sequence[] {
    return lengths.map((length, index) => this.add(distinct(index + 1, length)));
  }

  begin(): StepPlan {
    const plan = this.scheduler.plan();
    this.scheduler.begin(plan, ++this.nowMs);
    this.scheduler.audit();
    return plan;
  }

  /** Every sampling item gets `tokensFor` it; by default one token, 7. */
  commit(
    plan: StepPlan,
    tokensFor: (item: PlannedSequence) => readonly number[] = () => [7],
  ): readonly SequenceUpdate[] {
    const drawn = plan.items.map((item) => (item.samples ? tokensFor(item) : []));
    const updates = this.scheduler.commit(plan, drawn, ++this.nowMs);
    this.scheduler.audit();
    return updates;
  }

  step(tokensFor?: (item: PlannedSequence) => readonly number[]): StepPlan {
    const plan = this.begin();
    this.commit(plan, tokensFor);
    return plan;
  }

  /** Steps until nothing can be planned; the steps taken. */
  drain(stepsMax = 10_000): StepPlan[] {
    const steps: StepPlan[] = [];
    while (steps.length < stepsMax) {
      const plan = this.step();
      if (isEmptyPlan(plan)) return steps;
      steps.push(plan);
    }
    throw new Error(`Not done after ${stepsMax} steps`);
  }
}

/** Counts of a plan's items, in order. */
export const counts = (plan: StepPlan): number[] => plan.items.map((item) => item.count);

/** Sequences of a plan's items, in order. */
export const sequences = (plan: StepPlan): Sequence[] => plan.items.map((item) => item.sequence);

/** Sequences that a plan preempts. */
export const preempted = (plan: StepPlan): Sequence[] =>
  plan.preempted.flatMap((preemption) => preemption.sequences);

/** The id of a sequence that must be there. */
export function idOf(sequence: Sequence | undefined): SequenceId {
  if (sequence === undefined) throw new Error("No such sequence");
  return sequence.id;
}
