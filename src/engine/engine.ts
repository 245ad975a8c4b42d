import { assert, type Clock, EngineError } from "#base";
import type { GrammarCompiler } from "#sampling";
import {
  isEmptyPlan,
  type Scheduler,
  type Sequence,
  type SequenceUpdate,
  type StepPlan,
  sequenceId,
} from "#scheduler";
import type { GrammarVocabulary } from "#tokenizer";
import type { StepReport } from "./api.ts";
import type { ItemResult, ModelRunner } from "./model-runner.ts";
import type {
  EmbeddingOutput,
  EmbedRequest,
  EngineRequest,
  RequestFailure,
  RequestKey,
  SequenceOutput,
  StepOutput,
  StepStats,
  WireError,
} from "./protocol.ts";
import { RequestRecord, type RequestShape } from "./request-record.ts";
import type { SequenceTask } from "./sequence-task.ts";
import type { CacheMemory } from "./tiers/cache-memory.ts";
import { stepFailure, toWire } from "./wire-error.ts";

const MS_PER_SECOND = 1000;
/** A step tells how fast prompts are when one has so many tokens and such a share of all. */
const PREFILL_TOKENS_MIN = 16;
const PREFILL_SHARE_MIN = 0.9;

export interface EngineParts {
  readonly scheduler: Scheduler;
  readonly runner: ModelRunner;
  /** The bytes behind the scheduler's cache; null where they are nobody's concern. */
  readonly memory: Pick<CacheMemory, "carryOut" | "takeFinishedLoads" | "cost"> | null;
  readonly clock: Clock;
  /** What sequences of this model have in common. */
  readonly shape: RequestShape;
  readonly createCompiler: (vocabulary: GrammarVocabulary) => GrammarCompiler;
  /** Called when something outside a step made work possible. */
  readonly onWake: () => void;
}

/** What a device made of a plan: a result per item, or why there is none. */
type Computed = { readonly results: readonly ItemResult[] } | { readonly error: WireError };

/**
 * The step loop: plan, begin, forward, sample, commit. One step at a time; requests may come and
 * go between and during steps.
 */
export class Engine {
  readonly #parts: EngineParts;
  readonly #records = new Map<RequestKey, RequestRecord>();
  readonly #bySequence = new Map<Sequence, RequestRecord>();
  #vocabulary: GrammarVocabulary | null = null;
  #compiler: GrammarCompiler | null = null;
  #nextSequence = 1;
  #steps = 0;
  readonly #tokens = { prompt: 0, cachedPrompt: 0, computedPrompt: 0, generated: 0 };
  /** Requests that failed since the last step's news. */
  #failures: RequestFailure[] = [];
  /** While a step is computed: tasks of sequences that ended meanwhile, which it may still use. */
  #endedTasks: SequenceTask[] | null = null;

  constructor(parts: EngineParts) {
    this.#parts = parts;
  }

  /** What grammars are made of. Without it, structured output is refused. */
  useVocabulary(vocabulary: GrammarVocabulary): void {
    this.#vocabulary = vocabulary;
  }

  /** Queues a request, or throws PROMPT_TOO_LONG, QUEUE_FULL or TOKENIZER_MISSING. */
  add(request: EngineRequest): void {
    const structured = request.params.structuredOutput !== null;
    if (structured && this.#vocabulary === null) {
      throw new EngineError(
        "TOKENIZER_MISSING",
        "Cannot constrain the output: the model must have a tokenizer, this one has none",
      );
    }
    const record = new RequestRecord(request, this.#parts.shape, this.#birth());
    this.#register(record);
    if (structured) void this.#prepareGrammar(record);
  }

  /** Queues a prompt whose last hidden states are wanted. Throws as `add` does. */
  addEmbedding(request: EmbedRequest): void {
    this.#register(RequestRecord.forEmbedding(request, this.#parts.shape, this.#birth()));
  }

  /** Gives up one sequence of a request, or all. Unknown ones have ended: nothing to do. */
  abort(key: RequestKey, index?: number): void {
    const record = this.#records.get(key);
    // One beam is no caller's to give up: which one it becomes is not known before the end.
    if (record?.group.kind === "beams" && index !== undefined) return;
    record?.sequences.forEach((sequence, place) => {
      if (index !== undefined && index !== place) return;
      this.#parts.scheduler.abort(sequence.id);
      this.#forget(record, sequence);
    });
  }

  /** Null when there is nothing to do, and no news. Never rejects for a failing step. */
  async step(): Promise<StepOutput | null> {
    const { scheduler, clock, memory } = this.#parts;
    const startedMs = clock.nowMs();
    for (const key of memory?.takeFinishedLoads() ?? []) scheduler.loadDone(sequenceId(key));
    const plan = scheduler.plan();
    if (isEmptyPlan(plan)) {
      memory?.carryOut();
      return this.#news();
    }
    scheduler.begin(plan, startedMs);
    memory?.carryOut();
    const plannedMs = clock.nowMs();
    const computed = await this.#compute(plan);
    const computedMs = clock.nowMs();
    if ("results" in computed) this.#measure(plan, computedMs - plannedMs);
    const news =
      "error" in computed
        ? this.#fail(plan, computed.error)
        : this.#commit(plan, computed.results, computedMs);
    const planMs = plannedMs - startedMs + (clock.nowMs() - computedMs);
    const failures = this.#takeFailures();
    return { ...news, failures, report: report(plan, computedMs - startedMs, planMs) };
  }

  /** Where one prompt made up the step, its time says how fast prompts are computed. */
  #measure(plan: StepPlan, ms: number): void {
    const { memory } = this.#parts;
    for (const { start, count } of plan.items) {
      if (count < PREFILL_TOKENS_MIN || count < plan.tokens * PREFILL_SHARE_MIN) continue;
      memory?.cost.recordPrefill(start, start + count, ms);
    }
  }

  stats(): StepStats {
    const scheduler = this.#parts.scheduler.stats();
    return {
      ...scheduler,
      steps: this.#steps,
      promptTokens: this.#tokens.prompt,
      cachedPromptTokens: this.#tokens.cachedPrompt,
      computedPromptTokens: this.#tokens.computedPrompt,
      generatedTokens: this.#tokens.generated,
    };
  }

  /** Ends everything and frees the grammars. Not while a step runs. */
  dispose(): void {
    for (const key of [...this.#records.keys()]) this.abort(key);
    this.#compiler?.dispose();
  }

  #birth() {
    return { firstId: this.#nextSequence, nowMs: this.#parts.clock.nowMs() };
  }

  #register(record: RequestRecord): void {
    assert(!this.#records.has(record.key), "Cannot take a request twice");
    this.#parts.scheduler.add(record.group);
    this.#nextSequence += record.sequences.length;
    this.#records.set(record.key, record);
    for (const sequence of record.sequences) this.#bySequence.set(sequence, record);
  }

  /** Drops a sequence that the scheduler ended. Its task is freed when no step uses it. */
  #forget(record: RequestRecord, sequence: Sequence): void {
    if (!this.#bySequence.delete(sequence)) return;
    record.end(sequence);
    if (record.done) this.#records.delete(record.key);
    const task = record.taskOf(sequence);
    if (this.#endedTasks === null) task.sampling?.dispose();
    else this.#endedTasks.push(task);
  }

  /** A step may only take blocks back: then there is nothing to compute. */
  async #compute(plan: StepPlan): Promise<Computed> {
    if (plan.items.length === 0) return { results: [] };
    const tasks = new Map(plan.items.map(({ sequence }) => [sequence, this.#taskOf(sequence)]));
    const ended: SequenceTask[] = [];
    this.#endedTasks = ended;
    try {
      const results = await this.#parts.runner.run(plan, (sequence) => {
        const task = tasks.get(sequence);
        assert(task !== undefined, "Cannot find a task: the sequence is not in the plan");
        return task;
      });
      return { results };
    } catch (error) {
      return { error: stepFailure(error) };
    } finally {
      this.#endedTasks = null;
      for (const task of ended) task.sampling?.dispose();
    }
  }

  #taskOf(sequence: Sequence): SequenceTask {
    const record = this.#bySequence.get(sequence);
    assert(record !== undefined, "Cannot plan a sequence without a record");
    return record.taskOf(sequence);
  }

  /** What happened outside of steps: grammars that failed. */
  #news(): StepOutput | null {
    if (this.#failures.length === 0) return null;
    const report = { stepTokens: 0, sequences: 0, seconds: 0, planSeconds: 0 };
    return { outputs: [], embeddings: [], failures: this.#takeFailures(), report };
  }

  #takeFailures(): RequestFailure[] {
    const failures = this.#failures;
    this.#failures = [];
    return failures;
  }

  /** Lets sequences grow, turns updates into outputs, and lets go of what finished. */
  #commit(plan: StepPlan, results: readonly ItemResult[], nowMs: number) {
    const drawn = plan.items.map(({ sequence }, place) =>
      sequence.group.kind === "beams" ? null : (results[place]?.tokenIds ?? []),
    );
    const updates = this.#parts.scheduler.commit(plan, drawn, nowMs);
    const resultOf = new Map(plan.items.map((item, place) => [item.sequence, results[place]]));
    const outputs: SequenceOutput[] = [];
    const embeddings: EmbeddingOutput[] = [];
    for (const update of updates) {
      const { sequence } = update;
      const record = this.#bySequence.get(sequence);
      if (record === undefined) continue;
      const embedding = record.embedding(sequence);
      if (embedding !== null) embeddings.push({ key: record.key, embedding });
      else this.#advance(record, update, resultOf.get(sequence), outputs);
      if (sequence.finished) this.#forget(record, sequence);
    }
    this.#searchOn(plan, results, nowMs, outputs);
    this.#countStep(plan, outputs);
    return { outputs, embeddings };
  }

  /** Lets beams go on whose rows have all been computed. */
  #searchOn(
    plan: StepPlan,
    results: readonly ItemResult[],
    nowMs: number,
    outputs: SequenceOutput[],
  ): void {
    plan.items.forEach(({ sequence }, place) => {
      const candidates = results[place]?.candidates ?? null;
      const record = this.#bySequence.get(sequence);
      if (candidates === null || record === undefined || sequence.finished) return;
      try {
        this.#advanceBeams(record, record.advanceBeams(sequence, candidates), nowMs, outputs);
      } catch (error) {
        this.#failRequest(record, toWire(error));
      }
    });
  }

  #advanceBeams(
    record: RequestRecord,
    next: ReturnType<RequestRecord["advanceBeams"]>,
    nowMs: number,
    outputs: SequenceOutput[],
  ): void {
    const { scheduler } = this.#parts;
    if (next === null) return;
    if (next === "over") {
      outputs.push(...record.beamOutputs());
      scheduler.finishGroup(record.group, { reason: "stop", stopReason: null });
    } else {
      record.continueBeams(scheduler.continueBeams(record.group, next, nowMs));
    }
    for (const sequence of record.sequences) {
      if (sequence.finished) this.#forget(record, sequence);
    }
  }

  /** One update as output. A token that the grammar refuses ends the request with an error. */
  #advance(
    record: RequestRecord,
    update: SequenceUpdate,
    result: ItemResult | undefined,
    outputs: SequenceOutput[],
  ): void {
    const { sequence, tokenIds } = update;
    const verdict = record.acceptTokens(sequence, tokenIds);
    if (verdict instanceof EngineError) {
      this.#failRequest(record, toWire(verdict));
      return;
    }
    if (verdict === "complete" && !sequence.finished) {
      this.#parts.scheduler.finish(sequence.id, { reason: "stop", stopReason: null });
    }
    outputs.push(record.output(update, result?.logprobs ?? null));
  }

  /** Ends all requests that were in a step which threw. */
  #fail(plan: StepPlan, error: WireError): Pick<StepOutput, "outputs" | "embeddings"> {
    this.#parts.scheduler.fail(plan);
    for (const { sequence } of plan.items) {
      const record = this.#bySequence.get(sequence);
      if (record !== undefined) this.#failRequest(record, error);
    }
    return { outputs: [], embeddings: [] };
  }

  #failRequest(record: RequestRecord, error: WireError): void {
    for (const sequence of record.sequences) {
      this.#parts.scheduler.finish(sequence.id, { reason: "error", stopReason: null });
      this.#forget(record, sequence);
    }
    this.#failures.push({ key: record.key, error });
  }

  #countStep(plan: StepPlan, outputs: readonly SequenceOutput[]): void {
    const tokens = this.#tokens;
    this.#steps += 1;
    for (const { sequence, start, count, admission } of plan.items) {
      const { promptLength } = sequence;
      tokens.computedPrompt += Math.max(0, Math.min(start + count, promptLength) - start);
      // Samples and beams fork from the one that is admitted; what comes back is known already.
      if (admission === null || sequence.preemptions > 0) continue;
      tokens.prompt += promptLength;
      tokens.cachedPrompt += sequence.cachedTokens;
    }
    for (const { tokenIds } of outputs) tokens.generated += tokenIds.length;
  }

  /** Compiles beside the steps; the sequences keep their place in the queue meanwhile. */
  async #prepareGrammar(record: RequestRecord): Promise<void> {
    try {
      await record.compile(this.#grammarCompiler());
      for (const sequence of record.sequences) this.#parts.scheduler.grammarReady(sequence.id);
    } catch (error) {
      if (!record.done) this.#failRequest(record, toWire(error));
    }
    this.#parts.onWake();
  }

  #grammarCompiler(): GrammarCompiler {
    assert(this.#vocabulary !== null, "Cannot compile a grammar without a vocabulary");
    this.#compiler ??= this.#parts.createCompiler(this.#vocabulary);
    return this.#compiler;
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
