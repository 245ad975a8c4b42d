import { assert, type Clock, EngineError } from "#base";
import type { GrammarCompiler } from "#sampling";
import type { Scheduler, Sequence, SequenceUpdate, StepPlan } from "#scheduler";
import type { EngineStats, StepReport } from "./api.ts";
import type { ItemResult, ModelRunner } from "./model-runner.ts";
import type { EngineRequest, SequenceOutput } from "./protocol.ts";
import { RequestRecord, type RequestShape } from "./request-record.ts";
import type { SequenceTask } from "./sequence-task.ts";
import { toWire } from "./wire-error.ts";

const MS_PER_SECOND = 1000;

export interface EngineParts {
  readonly scheduler: Scheduler;
  readonly runner: ModelRunner;
  readonly clock: Clock;
  /** What sequences of this model have in common. */
  readonly shape: RequestShape;
  /** Made on the first structured request. Null: the model has no tokenizer. */
  readonly grammars: (() => GrammarCompiler) | null;
  /** Called when something outside a step made work possible. */
  readonly onWake: () => void;
}

/** What one step brought. */
export interface EngineStep {
  readonly outputs: readonly SequenceOutput[];
  /** Finished embeddings. */
  readonly embeddings: readonly { requestId: string; embedding: Float32Array }[];
  readonly report: StepReport;
}

/**
 * The step loop: plan, begin, forward, sample, commit. One step at a time; requests may come and
 * go between and during steps.
 */
export class Engine {
  readonly #parts: EngineParts;
  readonly #records = new Map<string, RequestRecord>();
  readonly #bySequence = new Map<Sequence, RequestRecord>();
  #compiler: GrammarCompiler | null = null;
  #nextSequence = 1;
  #steps = 0;
  #promptTokens = 0;
  #generatedTokens = 0;
  /** News that did not come from a step: grammars that failed. */
  #pending: SequenceOutput[] = [];

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  /** Queues a request. Throws PROMPT_TOO_LONG, QUEUE_FULL, TOKENIZER_MISSING; then nothing changed. */
  add(request: EngineRequest): void {
    const { scheduler, clock, shape, grammars } = this.#parts;
    const { structuredOutput } = request.params;
    if (structuredOutput !== null && grammars === null) {
      throw new EngineError("TOKENIZER_MISSING", "Cannot constrain the output: no tokenizer");
    }
    const firstId = this.#nextSequence;
    const record = new RequestRecord(request, shape, firstId, clock.nowMs());
    scheduler.add(...record.sequences);
    this.#nextSequence += record.sequences.length;
    this.#register(record);
    if (structuredOutput !== null) void this.#prepareGrammar(record);
  }

  /** Queues a prompt whose last hidden states are wanted. */
  addEmbedding(requestId: string, promptTokenIds: readonly number[]): void {
    const { scheduler, clock, shape } = this.#parts;
    const record = RequestRecord.forEmbedding(
      requestId,
      promptTokenIds,
      shape,
      this.#nextSequence,
      clock.nowMs(),
    );
    scheduler.add(...record.sequences);
    this.#nextSequence += 1;
    this.#register(record);
  }

  /** Gives up one sequence of a request, or all. Unknown ones have ended: nothing to do. */
  abort(requestId: string, index?: number): void {
    const record = this.#records.get(requestId);
    if (record === undefined) return;
    record.sequences.forEach((sequence, place) => {
      if (index !== undefined && index !== place) return;
      this.#parts.scheduler.abort(sequence.id);
      this.#forget(record, sequence);
    });
  }

  /** Is there anything that `step` could do? */
  get busy(): boolean {
    return this.#records.size > 0;
  }

  /** Null when nothing can run now (all wait for grammars). Never rejects for a failing step. */
  async step(): Promise<EngineStep | null> {
    const { scheduler, clock } = this.#parts;
    const startedMs = clock.nowMs();
    const plan = scheduler.plan();
    if (plan.items.length === 0 && plan.preempted.length === 0) return this.#idleStep();
    scheduler.begin(plan, startedMs);
    const plannedMs = clock.nowMs();
    let results: ItemResult[];
    try {
      results = await this.#compute(plan);
    } catch (error) {
      return this.#failedStep(plan, error, startedMs, plannedMs - startedMs);
    }
    const computedMs = clock.nowMs();
    const drawn = results.map((result) => result.tokenIds);
    const updates = scheduler.commit(plan, drawn, computedMs);
    const step = this.#collect(plan, results, updates);
    this.#countStep(plan, updates);
    const planMs = plannedMs - startedMs + (clock.nowMs() - computedMs);
    return { ...step, report: report(plan, computedMs - startedMs, planMs) };
  }

  stats(): EngineStats {
    const scheduler = this.#parts.scheduler.stats();
    return {
      ...scheduler,
      steps: this.#steps,
      promptTokens: this.#promptTokens,
      generatedTokens: this.#generatedTokens,
    };
  }

  /** Ends everything and frees the grammars. */
  async dispose(): Promise<void> {
    for (const requestId of [...this.#records.keys()]) this.abort(requestId);
    this.#compiler?.dispose();
  }

  /** A step may only take blocks back: then there is nothing to compute. */
  async #compute(plan: StepPlan): Promise<ItemResult[]> {
    if (plan.items.length === 0) return [];
    return this.#parts.runner.run(plan, (sequence) => this.#taskOf(sequence));
  }

  #register(record: RequestRecord): void {
    assert(!this.#records.has(record.requestId), "A request id is used once at a time");
    this.#records.set(record.requestId, record);
    for (const sequence of record.sequences) this.#bySequence.set(sequence, record);
  }

  #forget(record: RequestRecord, sequence: Sequence): void {
    if (!this.#bySequence.delete(sequence)) return;
    record.release(sequence);
    if (record.done) this.#records.delete(record.requestId);
  }

  #taskOf(sequence: Sequence): SequenceTask {
    // A sequence that was given up while its step was being made has a record no more.
    const record = this.#bySequence.get(sequence);
    assert(record !== undefined, "A planned sequence has a record");
    return record.taskOf(sequence);
  }

  #idleStep(): EngineStep | null {
    if (this.#pending.length === 0) return null;
    const outputs = this.#pending;
    this.#pending = [];
    return {
      outputs,
      embeddings: [],
      report: { stepTokens: 0, sequences: 0, seconds: 0, planSeconds: 0 },
    };
  }

  /** Turns updates into outputs, and lets go of what finished. */
  #collect(plan: StepPlan, results: readonly ItemResult[], updates: readonly SequenceUpdate[]) {
    const resultOf = new Map(plan.items.map((item, place) => [item.sequence, results[place]]));
    const outputs: SequenceOutput[] = this.#pending;
    this.#pending = [];
    const embeddings: { requestId: string; embedding: Float32Array }[] = [];
    for (const update of updates) {
      const { sequence } = update;
      const record = this.#bySequence.get(sequence);
      if (record === undefined) continue;
      const embedding = record.embedding(sequence);
      if (embedding !== null) embeddings.push({ requestId: record.requestId, embedding });
      else outputs.push(this.#output(record, update, resultOf.get(sequence)));
      if (sequence.finished) this.#forget(record, sequence);
    }
    return { outputs, embeddings };
  }

  /** One update as news; a token that the grammar refuses ends the sequence with an error. */
  #output(
    record: RequestRecord,
    update: SequenceUpdate,
    result: ItemResult | undefined,
  ): SequenceOutput {
    const refusal = record.acceptTokens(update.sequence, update.tokenIds);
    if (refusal !== null) {
      this.#parts.scheduler.finish(update.sequence.id, { reason: "error", stopReason: null });
      return record.errorOutput(update.sequence, toWire(refusal));
    }
    return record.output(update, result?.logprobs ?? null);
  }

  #failedStep(plan: StepPlan, error: unknown, startedMs: number, planMs: number): EngineStep {
    const wire = { ...toWire(error), code: "ENGINE_STEP_FAILED" as const };
    const outputs: SequenceOutput[] = [];
    for (const sequence of this.#parts.scheduler.fail(plan)) {
      const record = this.#bySequence.get(sequence);
      if (record === undefined) continue;
      outputs.push(record.errorOutput(sequence, wire));
      this.#forget(record, sequence);
    }
    const { clock } = this.#parts;
    return { outputs, embeddings: [], report: report(plan, clock.nowMs() - startedMs, planMs) };
  }

  #countStep(plan: StepPlan, updates: readonly SequenceUpdate[]): void {
    this.#steps += 1;
    for (const { sequence, start, count } of plan.items) {
      this.#promptTokens += Math.max(0, Math.min(start + count, sequence.promptLength) - start);
    }
    for (const { tokenIds } of updates) this.#generatedTokens += tokenIds.length;
  }

  /** Compiles beside the steps; the sequences keep their place in the queue meanwhile. */
  async #prepareGrammar(record: RequestRecord): Promise<void> {
    const { grammars, scheduler } = this.#parts;
    assert(grammars !== null, "A structured request needs a compiler");
    try {
      this.#compiler ??= grammars();
      await record.compile(this.#compiler);
      for (const sequence of record.sequences) scheduler.grammarReady(sequence.id);
    } catch (error) {
      for (const sequence of record.sequences) {
        if (sequence.finished) continue;
        scheduler.finish(sequence.id, { reason: "error", stopReason: null });
        this.#pending.push(record.errorOutput(sequence, toWire(error)));
        this.#forget(record, sequence);
      }
    }
    this.#parts.onWake();
  }
}

function report(plan: StepPlan, stepMs: number, planMs: number): StepReport {
  return {
    stepTokens: plan.tokens,
    sequences: plan.items.length,
    seconds: stepMs / MS_PER_SECOND,
    planSeconds: planMs / MS_PER_SECOND,
  };
}
