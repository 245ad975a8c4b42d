/** A worker on a simulated clock: the production scheduler and cache, without threads or HTTP. */
import { EngineError } from "#base";
import type { KvChange, WorkerInfo, WorkerLoad, WorkerSpeeds } from "#cluster";
import {
  type CostModel,
  loadMs,
  MockMemory,
  type MockVocabulary,
  mockToken,
  poolBlocks,
  StepMeter,
} from "#engine/mock";
import {
  isEmptyPlan,
  NO_STOP_RULES,
  Scheduler,
  SchedulerConfig,
  type SchedulerStats,
  Sequence,
  SequenceGroup,
  type SequenceUpdate,
  type StepPlan,
  sequenceId,
} from "#scheduler";
import type { SimClock } from "./sim-clock.ts";
import { kvChangesOf } from "./sim-kv-changes.ts";

/** What a simulated worker is asked. */
export interface SimRequest {
  readonly id: string;
  /** Shared, and must not change any more. */
  readonly promptTokenIds: Int32Array;
  /** How many tokens the answer has. */
  readonly outputTokens: number;
  /** Of its tokens. Default: 0, as where a request samples greedily. */
  readonly seed?: number;
  readonly salt?: string | null;
  /** Smaller ones run first where the scheduler's policy is `priority`. Default: 0. */
  readonly priority?: number;
}

/** A request at its end. Times are the simulated clock's. */
export interface SimOutcome {
  readonly request: SimRequest;
  /** `length`: all its tokens came; `error`: the worker stopped. */
  readonly reason: "length" | "abort" | "error";
  readonly submittedMs: number;
  readonly firstTokenMs: number | null;
  readonly endMs: number;
  /** Prompt tokens that were found in the cache. */
  readonly cachedTokens: number;
  /** Tokens that came. */
  readonly outputTokens: number;
}

/** Told of one request. */
export interface SimListener {
  firstToken?(cachedTokens: number): void;
  /** `count` tokens came; the first ones, too. */
  tokens?(count: number): void;
  end(outcome: SimOutcome): void;
}

/** Parts of a worker. */
export interface SimWorkerParts {
  readonly id: string;
  readonly clock: SimClock;
  readonly model: CostModel;
  /** Default: `SIM_VOCABULARY`. */
  readonly vocabulary?: MockVocabulary;
  /** Default: 16. */
  readonly blockTokens?: number;
  /** Blocks of the device, of host memory, of the disk. Default: the model's pool. */
  readonly blocks?: readonly [number, number, number];
  /** Default: steps of 2048 tokens. */
  readonly scheduler?: Partial<SchedulerConfig>;
  /** Changes of the cache, once a step. Absent: none are made, which is quicker. */
  readonly onChanges?: (changes: readonly KvChange[]) => void;
}

interface Running {
  readonly request: SimRequest;
  readonly listener: SimListener;
  readonly sequence: Sequence;
}

/** As of mocks that serve over HTTP. */
const STEP_TOKENS = 2048;
const BLOCK_TOKENS = 16;
/** Few ids, no text: outputs that differ are enough. */
export const SIM_VOCABULARY: MockVocabulary = {
  tokenIds: Int32Array.from({ length: 4096 }, (_, id) => id),
  endTokenId: null,
  meanOutputTokens: 256,
};

/**
 * Computes requests step by step: a step takes the time of the cost model, and its tokens come at
 * its end. Single-threaded and deterministic.
 */
export class SimWorker {
  readonly info: WorkerInfo;
  /** What a router would measure of it. */
  readonly speeds: WorkerSpeeds;
  readonly scheduler: Scheduler;
  readonly memory: MockMemory;
  readonly #parts: SimWorkerParts;
  readonly #vocabulary: MockVocabulary;
  readonly #meter = new StepMeter();
  readonly #running = new Map<Sequence, Running>();
  readonly #byId = new Map<string, Running>();
  readonly #scope: { readonly model: string; readonly blockTokens: number };
  #nextSequence = 1;
  /** A step is under way, or about to begin. */
  #busy = false;
  #stopped = false;
  #busyMs = 0;

  constructor(parts: SimWorkerParts) {
    const { clock, model, blockTokens = BLOCK_TOKENS } = parts;
    const blocks = parts.blocks ?? poolBlocks(model, blockTokens);
    const [device, hostBlocks, diskBlocks] = blocks;
    this.#parts = parts;
    this.#vocabulary = parts.vocabulary ?? SIM_VOCABULARY;
    this.#scope = { model: model.name, blockTokens };
    const events = parts.onChanges === undefined ? null : "v1_block_key";
    this.memory = new MockMemory({
      shape: { blocks: device, blockTokens, hostBlocks, diskBlocks, events },
      model,
      clock,
      timer: clock,
      onFinished: () => this.#wake(),
    });
    this.scheduler = new Scheduler({
      config: SchedulerConfig.parse({ stepTokensMax: STEP_TOKENS, ...parts.scheduler }),
      cache: this.memory.cache,
      contextTokensMax: model.contextTokensMax,
      estimates: this.memory.cost,
    });
    this.info = infoOf(parts, { blockTokens, blocks, scheduler: this.scheduler });
    this.speeds = speedsOf(model);
  }

  /** Queues a request. Throws PROMPT_TOO_LONG, QUEUE_FULL, and SHUTTING_DOWN once it stopped. */
  submit(request: SimRequest, listener: SimListener): void {
    if (this.#stopped) {
      throw new EngineError("SHUTTING_DOWN", `Cannot take a request: ${this.info.id} has stopped`);
    }
    const sequence = this.#sequenceOf(request);
    this.scheduler.add(SequenceGroup.of(sequence));
    const running = { request, listener, sequence };
    this.#running.set(sequence, running);
    this.#byId.set(request.id, running);
    this.#wake();
  }

  /** Ends a request whose client went away; none of that id: no effect. */
  abort(id: string): void {
    const running = this.#byId.get(id);
    if (running === undefined) return;
    this.scheduler.abort(running.sequence.id);
    this.#end(running, "abort");
    this.#wake();
  }

  /** The worker dies: its requests end with an error, and it takes no more. */
  stop(): void {
    this.#stopped = true;
    for (const running of [...this.#running.values()]) {
      this.scheduler.abort(running.sequence.id);
      this.#end(running, "error");
    }
    void this.memory.close();
  }

  /** Load as a worker reports it. */
  load(): WorkerLoad {
    const { running, waiting, heldBlocks, totalBlocks } = this.scheduler.stats();
    let uncachedTokens = 0;
    for (const { sequence } of this.#running.values()) {
      uncachedTokens += Math.max(0, sequence.promptLength - sequence.computedTokens);
    }
    return {
      runningRequests: running,
      waitingRequests: waiting,
      blocksUsed: heldBlocks / totalBlocks,
      uncachedTokens,
    };
  }

  stats(): SchedulerStats {
    return this.scheduler.stats();
  }

  /** Time that steps took since the start. */
  get busyMs(): number {
    return this.#busyMs;
  }

  #sequenceOf(request: SimRequest): Sequence {
    return new Sequence({
      id: sequenceId(this.#nextSequence++),
      requestId: request.id,
      promptTokenIds: request.promptTokenIds,
      stop: { ...NO_STOP_RULES, maxTokens: request.outputTokens },
      arrivalMs: this.#parts.clock.nowMs(),
      cacheSalt: request.salt ?? null,
      priority: request.priority ?? 0,
    });
  }

  /** Steps begin behind all events of this time: requests that come together run together. */
  #wake(): void {
    if (this.#busy || this.#stopped) return;
    this.#busy = true;
    this.#parts.clock.after(0, () => this.#begin());
  }

  #begin(): void {
    this.#busy = false;
    const { scheduler, memory } = this;
    const { clock } = this.#parts;
    for (const key of memory.takeFinishedLoads()) scheduler.loadDone(sequenceId(key));
    const plan = scheduler.plan();
    const isEmpty = isEmptyPlan(plan);
    if (!isEmpty) scheduler.begin(plan, clock.nowMs());
    const waitMs = memory.carryOut(memory.takeMoves());
    if (isEmpty) {
      this.#tellChanges();
      return;
    }
    this.#meter.clear();
    for (const { start, count } of plan.items) this.#meter.add(start, count);
    const ms = waitMs + this.#meter.ms(this.#parts.model.step);
    this.#busyMs += ms;
    this.#busy = true;
    clock.after(ms, () => this.#commit(plan));
  }

  #commit(plan: StepPlan): void {
    if (this.#stopped) return;
    const nowMs = this.#parts.clock.nowMs();
    const sampled = plan.items.map((item) => (item.samples ? [this.#sample(item.sequence)] : null));
    const updates = this.scheduler.commit(plan, sampled, nowMs);
    this.#tellChanges();
    for (const update of updates) this.#deliver(update);
    this.#begin();
  }

  #sample(sequence: Sequence): number {
    const position = sequence.tokens.length;
    const previous = sequence.tokens.get(position - 1);
    const seedLow = (this.#running.get(sequence)?.request.seed ?? 0) >>> 0;
    return mockToken(this.#vocabulary, { seedLow, seedHigh: 0, position, previous });
  }

  #deliver({ sequence, tokenIds, finished }: SequenceUpdate): void {
    const running = this.#running.get(sequence);
    if (running === undefined) return;
    const { listener } = running;
    if (sequence.generatedTokens === tokenIds.length) listener.firstToken?.(sequence.cachedTokens);
    listener.tokens?.(tokenIds.length);
    if (finished) this.#end(running, "length");
  }

  #end(running: Running, reason: SimOutcome["reason"]): void {
    const { request, sequence, listener } = running;
    this.#running.delete(sequence);
    this.#byId.delete(request.id);
    listener.end({
      ...{ request, reason, submittedMs: sequence.arrivalMs },
      firstTokenMs: sequence.firstTokenMs,
      endMs: this.#parts.clock.nowMs(),
      cachedTokens: sequence.cachedTokens,
      outputTokens: sequence.generatedTokens,
    });
  }

  #tellChanges(): void {
    const { onChanges } = this.#parts;
    if (onChanges === undefined) return;
    const changes = kvChangesOf(this.#scope, this.memory.cache.takeEvents());
    if (changes.length > 0) onChanges(changes);
  }
}

/** What a router measures of a worker with this cost model. */
export function speedsOf(model: CostModel): WorkerSpeeds {
  const { stepMs, promptTokenMs, decodingMs, contextTokenMs } = model.step;
  return {
    prefillMsPerToken: promptTokenMs,
    decodeMs: (requests, tokens) => stepMs + decodingMs * requests + contextTokenMs * tokens,
    loadMsPerToken: [loadMs(model, 1, 1), loadMs(model, 2, 1)],
  };
}

function infoOf(
  { id, model }: SimWorkerParts,
  sizes: {
    readonly blockTokens: number;
    readonly blocks: readonly number[];
    readonly scheduler: Scheduler;
  },
): WorkerInfo {
  const { blockTokens, blocks, scheduler } = sizes;
  return {
    id,
    epoch: "0",
    url: `sim://${id}`,
    kind: "perigee",
    version: "simulated",
    models: [model.name],
    fingerprint: `mock ${model.name}`,
    contextTokensMax: scheduler.contextTokensMax,
    kv: { blockTokens, blocks: blocks.filter((count) => count > 0), groupWindows: [null] },
  };
}
