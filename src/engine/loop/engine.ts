import { assert, EngineError } from "#base";
import {
  type EmbeddingOutput,
  type EmbedRequest,
  type EngineRequest,
  type LoopStats,
  type RequestKey,
  requestFailure,
  type SequenceOutput,
  type StepOutput,
  stepFailure,
  toWire,
  type WireError,
} from "#engine/protocol";
import type { Occupation } from "#kvcache";
import { type GrammarCompiler, sequencesOf } from "#sampling";
import type { Sequence, SequenceUpdate, StepPlan } from "#scheduler";
import type { GrammarVocabulary } from "#tokenizer";
import { disposeOf } from "./dispose-of.ts";
import { Drafting, type StepPolicy } from "./drafting.ts";
import { beginningLength } from "./earlier-tokens.ts";
import { FailureList } from "./failure-list.ts";
import { LoopCounts } from "./loop-counts.ts";
import type { ItemResult } from "./model-runner.ts";
import { checkPromptRows } from "./prompt-rows.ts";
import { RequestRecord, type RequestShape } from "./request-record.ts";
import type { SequenceTask } from "./sequence-task.ts";
import { SlowMasks } from "./slow-masks.ts";
import type { StepEngine } from "./step-engine.ts";
import { type ComputedStep, StepPipeline, type StepPipelineParts } from "./step-pipeline.ts";
import { reportOf } from "./step-report.ts";

export interface EngineParts extends StepPipelineParts {
  /** Properties shared by all sequences of this model. */
  readonly shape: RequestShape;
  /** Decides how much is drafted and verified. Default: null, all that is drafted is. */
  readonly draftPolicy?: StepPolicy | null;
  readonly createCompiler: (vocabulary: GrammarVocabulary) => StructuredCompiler;
  /** Called when something outside a step made work possible. */
  readonly onWake: () => void;
}

/** Compiles requests' structured-output options to grammars. */
export type StructuredCompiler = Pick<GrammarCompiler, "compile" | "dispose">;

/**
 * The step loop: plan, begin, forward, sample, commit. Steps are committed in the order they began;
 * requests may be added and end between and during steps.
 */
export class Engine implements StepEngine {
  readonly #parts: EngineParts;
  readonly #pipeline: StepPipeline;
  readonly #slowMasks: SlowMasks;
  readonly #records = new Map<RequestKey, RequestRecord>();
  readonly #bySequence = new Map<Sequence, RequestRecord>();
  #vocabulary: GrammarVocabulary | null = null;
  #compiler: StructuredCompiler | null = null;
  #nextSequence = 1;
  readonly #counts = new LoopCounts();
  readonly #drafting: Drafting;
  readonly #failures = new FailureList();
  /** An error that may be a bug may have left the bookkeeping inconsistent. */
  #inDoubt = false;

  constructor(parts: EngineParts) {
    const { scheduler, clock, draftPolicy: policy = null } = parts;
    this.#parts = parts;
    this.#pipeline = new StepPipeline(parts);
    this.#slowMasks = new SlowMasks(clock);
    this.#drafting = new Drafting({ scheduler, policy });
  }

  /** Keys of requests that have not ended. */
  get keys(): RequestKey[] {
    return [...this.#records.keys()];
  }

  /** Sets the vocabulary of grammars. Without it, structured output is refused. */
  useVocabulary(vocabulary: GrammarVocabulary): void {
    this.#vocabulary = vocabulary;
  }

  /**
   * Queues a request, or throws PROMPT_TOO_LONG, QUEUE_FULL or TOKENIZER_MISSING. `occupation`:
   * what transfers hold for it is noted there.
   */
  add(request: EngineRequest, occupation?: Occupation): void {
    const structured = request.params.structuredOutput !== null;
    if (structured && this.#vocabulary === null) {
      throw new EngineError(
        "TOKENIZER_MISSING",
        "Cannot constrain the output: the model must have a tokenizer, this one has none",
      );
    }
    const { scheduler, shape } = this.#parts;
    // Sequences and rows are counted before they are allocated.
    scheduler.checkRoom(beginningLength(request), sequencesOf(request.params));
    checkPromptRows(request, shape);
    const record = new RequestRecord(request, shape, { ...this.#birth(), occupation });
    this.#register(record);
    if (structured) void this.#prepareGrammar(record);
  }

  /** Queues a prompt whose last hidden states are wanted. Throws as `add` does. */
  addEmbedding(request: EmbedRequest): void {
    this.#register(RequestRecord.forEmbedding(request, this.#parts.shape, this.#birth()));
  }

  /** Aborts one sequence of a request, or all. An unknown key has ended: no effect. */
  abort(key: RequestKey, index?: number): void {
    const record = this.#records.get(key);
    // A caller cannot abort one beam: its rank is not known before the end.
    if (record?.group.kind === "beams" && index !== undefined) return;
    record?.sequences.forEach((sequence) => {
      if (index !== undefined && index !== record.taskOf(sequence).index) return;
      this.#parts.scheduler.abort(sequence.id);
      this.#forget(record, sequence);
    });
  }

  /** Pauses or resumes a request. An unknown key has ended: no effect. */
  setPaused(key: RequestKey, paused: boolean): void {
    const { scheduler } = this.#parts;
    const record = this.#records.get(key);
    if (record !== undefined) scheduler[paused ? "pause" : "resume"](record.group);
  }

  /**
   * Completes one step. Null when there is no work and no failure to report: then none is under
   * way. An error of one request ends that request; an error of no single request ends all of the
   * step. Rejects only where the bookkeeping is inconsistent afterwards, or memory could not be
   * moved: then no step may follow.
   */
  async step(): Promise<StepOutput | null> {
    const step = await this.#next();
    if (step === null) return this.#failures.news();
    if ("unplanned" in step) {
      this.#failAll(step.unplanned);
      return this.#failures.news();
    }
    const { clock } = this.#parts;
    const takenMs = clock.nowMs();
    this.#drafting.measure(step);
    const news = await this.#takeIn(step);
    this.#checkBooks();
    await this.#beginHeldUp();
    this.#drafting.settle();
    const planMs = step.planMs + (clock.nowMs() - takenMs);
    return { ...news, failures: this.#failures.take(), report: reportOf(step, planMs) };
  }

  /** The next step, of sequences whose masks are ready. */
  async #next(): ReturnType<StepPipeline["next"]> {
    for (;;) {
      await this.#slowMasks.prepare((sequence, error) => {
        const record = this.#bySequence.get(sequence);
        if (record !== undefined) this.#failRequest(record, requestFailure(error));
      });
      if (this.#pipeline.begins) this.#drafting.allot();
      const step = await this.#pipeline.next((sequence) => this.#taskOf(sequence));
      // A prepared sequence may lack blocks that an unprepared one holds.
      if (step !== null || this.#slowMasks.idle) return step;
    }
  }

  /** Begins a step that the last one held up, before that one's results are passed on. */
  async #beginHeldUp(): Promise<void> {
    if (!this.#pipeline.heldUp || !this.#slowMasks.idle) return;
    this.#drafting.allot();
    await this.#pipeline.beginHeldUp((sequence) => this.#taskOf(sequence));
  }

  /** Carries out moves that were decided since the last step began. Rejects as `step` does. */
  readonly moveBlocks = (): Promise<void> => this.#pipeline.moveBlocks();

  stats(): LoopStats {
    return {
      ...this.#parts.scheduler.stats(),
      ...this.#counts.sinceStart(),
      ...this.#drafting.counts(),
    };
  }

  /** Ends all requests and frees the grammars. Not while `step` runs; a step under way is lost. */
  async dispose(): Promise<void> {
    for (const key of this.keys) this.abort(key);
    const [lost] = await this.#pipeline.dropAhead();
    // Their blocks were published, and may never have been computed.
    if (lost !== undefined) this.#parts.scheduler.fail(lost);
    disposeOf(this.#compiler);
  }

  #birth() {
    return { firstId: this.#nextSequence, nowMs: this.#parts.clock.nowMs() };
  }

  #register(record: RequestRecord): void {
    assert(!this.#records.has(record.key), "Cannot take a request twice");
    this.#parts.scheduler.add(record.group);
    this.#nextSequence += record.sequences.length;
    this.#records.set(record.key, record);
    for (const sequence of record.sequences) {
      this.#bySequence.set(sequence, record);
      this.#drafting.begun(record.taskOf(sequence));
    }
  }

  /** Drops a sequence that the scheduler ended. Its task is freed when no step uses it. */
  #forget(record: RequestRecord, sequence: Sequence): void {
    if (!this.#bySequence.delete(sequence)) return;
    this.#slowMasks.forget(sequence);
    this.#drafting.ended(sequence);
    record.end(sequence);
    if (record.done) this.#records.delete(record.key);
    this.#pipeline.free(record.taskOf(sequence));
  }

  #taskOf(sequence: Sequence): SequenceTask {
    const record = this.#bySequence.get(sequence);
    assert(record !== undefined, "Cannot plan a sequence without a record");
    return record.taskOf(sequence);
  }

  async #takeIn(step: ComputedStep): Promise<StepNews> {
    const { plan, outcome } = step;
    if ("error" in outcome) {
      this.#inDoubt ||= outcome.inDoubt;
      return await this.#fail(plan, outcome.error);
    }
    const { results } = outcome;
    // Before the commit: tokens sampled for their sequences are discarded.
    plan.items.forEach(({ sequence }, place) => {
      const failure = results[place]?.failure;
      const record = failure === undefined ? undefined : this.#bySequence.get(sequence);
      if (failure !== undefined && record !== undefined) this.#failRequest(record, failure);
    });
    let updates: readonly SequenceUpdate[];
    try {
      updates = this.#commit(step, results);
    } catch (error) {
      this.#inDoubt = true;
      return await this.#fail(plan, stepFailure(error));
    }
    return this.#deliver(step, results, updates);
  }

  /** Appends sampled tokens to their sequences. */
  #commit(step: ComputedStep, results: readonly ItemResult[]): readonly SequenceUpdate[] {
    const { plan, computedMs: nowMs } = step;
    const sampled = plan.items.map(({ sequence }, place) =>
      sequence.group.kind === "beams" ? null : (results[place]?.tokenIds ?? []),
    );
    return this.#parts.scheduler.commit(plan, sampled, nowMs);
  }

  /** Turns updates into outputs, and releases finished sequences. */
  #deliver(
    step: ComputedStep,
    results: readonly ItemResult[],
    updates: readonly SequenceUpdate[],
  ): StepNews {
    const { plan, computedMs: nowMs } = step;
    const resultOf = new Map(plan.items.map((item, place) => [item.sequence, results[place]]));
    const outputs: SequenceOutput[] = [];
    const embeddings: EmbeddingOutput[] = [];
    for (const update of updates) {
      const { sequence } = update;
      const record = this.#bySequence.get(sequence);
      if (record === undefined) continue;
      this.#guard(record, () => {
        const embedding = record.embedding(sequence);
        if (embedding !== null) embeddings.push({ key: record.key, embedding });
        else outputs.push(this.#advance(record, update, resultOf.get(sequence), nowMs));
        if (sequence.finished) this.#forget(record, sequence);
      });
    }
    this.#searchOn(plan, results, nowMs, outputs);
    this.#counts.count(step, outputs);
    return { outputs, embeddings };
  }

  /** Does the work of one request: an error ends that request. */
  #guard(record: RequestRecord, work: () => void): void {
    try {
      work();
    } catch (error) {
      // A bug may have left the bookkeeping inconsistent.
      if (!(error instanceof EngineError)) this.#inDoubt = true;
      this.#failRequest(record, requestFailure(error));
    }
  }

  /** Continues beam searches whose rows have all been computed. */
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
      this.#guard(record, () => {
        this.#advanceBeams(record, record.advanceBeams(sequence, candidates), nowMs, outputs);
      });
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
      outputs.push(...record.beamOutputs(nowMs));
      scheduler.finishGroup(record.group, { reason: "stop", stopReason: null });
    } else {
      record.continueBeams(scheduler.continueBeams(record.group, next, nowMs));
    }
    for (const sequence of record.sequences) {
      if (sequence.finished) this.#forget(record, sequence);
    }
  }

  /** One update as output. */
  #advance(
    record: RequestRecord,
    update: SequenceUpdate,
    result: ItemResult | undefined,
    nowMs: number,
  ): SequenceOutput {
    const { sequence, tokenIds } = update;
    const verdict = record.acceptTokens(sequence, tokenIds);
    if (verdict === "complete" && !sequence.finished) {
      this.#parts.scheduler.finish(sequence.id, { reason: "stop", stopReason: null });
    }
    const task = record.taskOf(sequence);
    const { sampling } = task;
    if (sampling !== null && !sequence.finished) this.#slowMasks.note(sequence, sampling);
    this.#drafting.grown(update, task, result);
    return record.output(update, result, nowMs);
  }

  /** Ends all requests of a step that threw, and of those that began after it. */
  async #fail(plan: StepPlan, error: WireError): Promise<StepNews> {
    const behind = await this.#pipeline.dropAhead();
    this.#parts.scheduler.fail(plan);
    for (const { sequence } of [plan, ...behind].flatMap(({ items }) => items)) {
      const record = this.#bySequence.get(sequence);
      if (record !== undefined) this.#failRequest(record, error);
    }
    return { outputs: [], embeddings: [] };
  }

  /** Ends all requests: planning failed, and the request at fault is unknown. */
  #failAll(error: WireError): void {
    for (const record of [...this.#records.values()]) this.#failRequest(record, error);
    this.#inDoubt = true;
    this.#checkBooks();
  }

  /** Throws where the bookkeeping is inconsistent: no step may run on it. */
  #checkBooks(): void {
    if (!this.#inDoubt) return;
    this.#parts.scheduler.audit();
    this.#inDoubt = false;
  }

  #failRequest(record: RequestRecord, error: WireError): void {
    for (const sequence of record.sequences) {
      this.#parts.scheduler.finish(sequence.id, { reason: "error", stopReason: null });
      this.#forget(record, sequence);
    }
    this.#failures.add({ key: record.key, error });
  }

  /** Compiles while steps run; the sequences keep their place in the queue meanwhile. */
  async #prepareGrammar(record: RequestRecord): Promise<void> {
    try {
      await record.compile(this.#grammarCompiler());
      for (const sequence of record.sequences) this.#parts.scheduler.grammarReady(sequence.id);
    } catch (error) {
      if (!record.done) this.#failRequest(record, toWire(error));
    }
    this.#parts.onWake();
  }

  #grammarCompiler(): StructuredCompiler {
    assert(this.#vocabulary !== null, "Cannot compile a grammar without a vocabulary");
    this.#compiler ??= this.#parts.createCompiler(this.#vocabulary);
    return this.#compiler;
  }
}

/** A step's results without its failures. */
type StepNews = Pick<StepOutput, "outputs" | "embeddings">;
