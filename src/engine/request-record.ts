import { assert, EngineError } from "#base";
import {
  type CompiledGrammar,
  type GrammarCompiler,
  type GrammarMatcher,
  type LogprobRequest,
  type PositionLogprobs,
  SamplingParams,
  SequenceSampling,
} from "#sampling";
import { Sequence, type SequenceUpdate, type StopRules, sequenceId } from "#scheduler";
import type { EngineRequest, PromptOutput, SequenceOutput, WireError } from "./protocol.ts";
import { HiddenSum, type SequenceTask } from "./sequence-task.ts";

const MS_PER_SECOND = 1000;

/** What every request of a model has in common. */
export interface RequestShape {
  readonly vocabularySize: number;
  readonly hiddenSize: number;
  readonly eosTokenIds: readonly number[];
}

/** A request inside the engine: its sequences, and what is computed for each. */
export class RequestRecord {
  readonly requestId: string;
  readonly sequences: readonly Sequence[];
  readonly #request: EngineRequest;
  readonly #shape: RequestShape;
  readonly #tasks: readonly SequenceTask[];
  readonly #released = new Set<Sequence>();
  readonly #arrivalMs: number;
  #grammar: CompiledGrammar | null = null;

  /** Makes `params.n` sequences, numbered from `firstId`. */
  constructor(request: EngineRequest, shape: RequestShape, firstId: number, nowMs: number) {
    this.#request = request;
    this.#shape = shape;
    this.#arrivalMs = nowMs;
    this.requestId = request.requestId;
    const places = Array.from({ length: request.params.n }, (_, place) => place);
    this.sequences = places.map((place) => createSequence(request, shape, place, firstId, nowMs));
    this.#tasks = places.map((place) => createTask(request, shape, place));
  }

  /** One sequence that draws nothing of use: its hidden states are summed up. */
  static forEmbedding(
    requestId: string,
    promptTokenIds: readonly number[],
    shape: RequestShape,
    firstId: number,
    nowMs: number,
  ): RequestRecord {
    const params = SamplingParams.parse({
      temperature: 0,
      maxTokens: 1,
      skipReadingPrefixCache: true,
    });
    const request: EngineRequest = {
      requestId,
      promptTokenIds,
      params,
      seed: 0n,
      cacheSalt: null,
      priority: 0,
      badWordTokenIds: [],
      promptLogits: false,
    };
    const record = new RequestRecord(request, shape, firstId, nowMs);
    const [task] = record.#tasks;
    assert(task !== undefined, "An embedding has one sequence");
    task.hiddenSum = new HiddenSum(shape.hiddenSize);
    return record;
  }

  /** Have all sequences ended? */
  get done(): boolean {
    return this.#released.size === this.sequences.length;
  }

  taskOf(sequence: Sequence): SequenceTask {
    const task = this.#tasks[this.sequences.indexOf(sequence)];
    assert(task !== undefined, "A sequence belongs to its record");
    return task;
  }

  /** Frees what an ended sequence held beside blocks. */
  release(sequence: Sequence): void {
    if (this.#released.has(sequence)) return;
    this.#released.add(sequence);
    const task = this.taskOf(sequence);
    task.sampling?.dispose();
    if (this.done) this.#grammar?.dispose();
  }

  /** Compiles the request's grammar: its sequences can draw then. */
  async compile(compiler: GrammarCompiler): Promise<void> {
    const { structuredOutput } = this.#request.params;
    assert(structuredOutput !== null, "Only structured requests compile a grammar");
    const grammar = await compiler.compile(structuredOutput);
    if (this.done) {
      grammar.dispose();
      return;
    }
    this.#grammar = grammar;
    for (const [place, sequence] of this.sequences.entries()) {
      const matcher = await grammar.createMatcher();
      const sampling = createSampling(this.#request, this.#shape, place, matcher);
      if (this.#released.has(sequence)) sampling.dispose();
      else this.taskOf(sequence).sampling = sampling;
    }
  }

  /** The finished embedding, for a sequence that was made for one. */
  embedding(sequence: Sequence): Float32Array | null {
    const { hiddenSum } = this.taskOf(sequence);
    return hiddenSum !== null && sequence.finished ? hiddenSum.normalized() : null;
  }

  /** Moves the sequence's penalties and grammar on. An error when the grammar refuses a token. */
  acceptTokens(sequence: Sequence, tokenIds: readonly number[]): EngineError | null {
    const task = this.taskOf(sequence);
    for (const token of tokenIds) {
      if (task.sampling?.accept(token) !== false) continue;
      return new EngineError(
        "ENGINE_STEP_FAILED",
        `Cannot go on: the grammar refuses token ${token}, which was drawn`,
      );
    }
    return null;
  }

  output(update: SequenceUpdate, logprobs: readonly PositionLogprobs[] | null): SequenceOutput {
    const { sequence, tokenIds } = update;
    const { state } = sequence;
    return {
      requestId: this.requestId,
      index: this.sequences.indexOf(sequence),
      tokenIds,
      logprobs: logprobs === null ? null : logprobs.slice(0, tokenIds.length),
      finishReason: state.phase === "finished" ? state.reason : null,
      stopReason: state.phase === "finished" ? state.stopReason : null,
      error: null,
      prompt: this.#promptOutput(update),
    };
  }

  errorOutput(sequence: Sequence, error: WireError): SequenceOutput {
    return {
      requestId: this.requestId,
      index: this.sequences.indexOf(sequence),
      tokenIds: [],
      logprobs: null,
      finishReason: "error",
      stopReason: null,
      error,
      prompt: null,
    };
  }

  /** Goes with the first tokens of the first sequence. */
  #promptOutput({ sequence, tokenIds }: SequenceUpdate): PromptOutput | null {
    const isFirst = sequence === this.sequences[0] && sequence.generatedTokens === tokenIds.length;
    if (!isFirst) return null;
    const task = this.taskOf(sequence);
    const queuedMs = (sequence.firstScheduledMs ?? this.#arrivalMs) - this.#arrivalMs;
    return {
      cachedTokens: sequence.cachedTokens,
      queueSeconds: queuedMs / MS_PER_SECOND,
      promptLogprobs: task.promptLogprobs?.rows ?? null,
      promptLogits: task.promptLogits?.values ?? null,
    };
  }
}

function createSequence(
  request: EngineRequest,
  shape: RequestShape,
  place: number,
  firstId: number,
  arrivalMs: number,
): Sequence {
  const { params } = request;
  return new Sequence({
    id: sequenceId(firstId + place),
    requestId: request.requestId,
    promptTokenIds: request.promptTokenIds,
    stop: stopRules(params, shape),
    arrivalMs,
    priority: request.priority,
    cacheSalt: request.cacheSalt,
    skipReadingPrefixCache:
      params.skipReadingPrefixCache ?? (wantsPromptRows(request) && place === 0),
    awaitsGrammar: params.structuredOutput !== null,
  });
}

/** Rows of cached tokens are not computed, so whoever wants all rows computes all tokens. */
function wantsPromptRows(request: EngineRequest): boolean {
  return request.params.promptLogprobs !== null || request.promptLogits;
}

function stopRules(params: SamplingParams, shape: RequestShape): StopRules {
  return {
    maxTokens: params.maxTokens,
    minTokens: params.minTokens,
    ignoreEos: params.ignoreEos,
    eosTokenIds: new Set(shape.eosTokenIds),
    stopTokenIds: new Set(params.stopTokenIds),
    repetition: null,
  };
}

function createTask(request: EngineRequest, shape: RequestShape, place: number): SequenceTask {
  const { params, promptTokenIds } = request;
  const { vocabularySize } = shape;
  const tokens = promptTokenIds.length;
  const first = place === 0;
  const promptWanted = first ? promptRequest(params, vocabularySize) : null;
  return {
    sampling: params.structuredOutput === null ? createSampling(request, shape, place, null) : null,
    promptLogprobs:
      promptWanted === null
        ? null
        : {
            wanted: promptWanted,
            rows: new Array<PositionLogprobs | null>(tokens).fill(null),
          },
    promptLogits:
      request.promptLogits && first
        ? { columns: vocabularySize, values: new Float32Array(tokens * vocabularySize) }
        : null,
    hiddenSum: null,
  };
}

function createSampling(
  request: EngineRequest,
  shape: RequestShape,
  place: number,
  matcher: GrammarMatcher | null,
): SequenceSampling {
  return new SequenceSampling({
    params: request.params,
    seed: request.seed + BigInt(place),
    promptTokens: request.promptTokenIds,
    vocabularySize: shape.vocabularySize,
    endTokenIds: shape.eosTokenIds,
    badWords: request.badWordTokenIds,
    matcher,
  });
}

/** -1 means the whole vocabulary. */
function promptRequest(params: SamplingParams, vocabularySize: number): LogprobRequest | null {
  const { promptLogprobs } = params;
  if (promptLogprobs === null) return null;
  const count = promptLogprobs < 0 ? vocabularySize : promptLogprobs;
  return { kind: "top", count: Math.min(count, vocabularySize) };
}
