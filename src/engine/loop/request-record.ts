import { assert } from "#base";
import {
  checkEmbedLength,
  type EmbedRequest,
  type EngineRequest,
  type PromptOutput,
  type RequestKey,
  type SequenceOutput,
} from "#engine/protocol";
import { decodeRetention, type Occupation, promptRetention } from "#kvcache";
import {
  type CompiledGrammar,
  type GrammarCompiler,
  RequestSampling,
  SamplingParams,
  SequenceSampling,
  type TokenCandidates,
} from "#sampling";
import {
  type BeamContinuation,
  generatedTokensMax,
  Sequence,
  SequenceGroup,
  type SequenceRetention,
  type SequenceUpdate,
  type StopRules,
  sequenceId,
} from "#scheduler";
import { BeamRecord } from "./beam-record.ts";
import { disposeOf } from "./dispose-of.ts";
import { checkOpen, earlierTokens, foundTokens, liveIndices } from "./earlier-tokens.ts";
import type { ItemResult } from "./model-runner.ts";
import { type DraftSources, drafterMaker, keepOutput } from "./request-drafts.ts";
import { createTask, wantsPromptRows } from "./request-task.ts";
import type { HiddenPool, SequenceTask } from "./sequence-task.ts";

const MS_PER_SECOND = 1000;

/** How the hidden states of a text become its vector. */
export interface HiddenPooling {
  /** Most tokens of a text. */
  readonly tokensMax: number;
  /** `skipped`: leading rows that are not pooled. */
  readonly newPool: (skipped: number) => HiddenPool;
}

/** Properties shared by all requests of a model. */
export interface RequestShape extends DraftSources {
  readonly vocabularySize: number;
  /** How texts are embedded. Throws where the model's files specify unsupported pooling. */
  readonly embedding: () => HiddenPooling;
  readonly eosTokenIds: readonly number[];
  /** Most tokens of a sequence, prompt included. */
  readonly contextTokensMax: number;
  readonly blockTokens: number;
  /** Most log-probabilities of a prompt's tokens in one request. */
  readonly promptLogprobsMax: number;
}

/** The id of a request's first sequence, and the arrival time. */
export interface Birth {
  readonly firstId: number;
  readonly nowMs: number;
  /** Of its first sequence, where transfers hold blocks for it. */
  readonly occupation?: Occupation | undefined;
}

/** A request inside the engine: its sequences, and what is computed for each. */
export class RequestRecord {
  readonly key: RequestKey;
  /** Its sequences, as the scheduler takes them. */
  readonly group: SequenceGroup;
  readonly #beams: BeamRecord | null;
  /** The likeliest tokens of beams that were computed in the current round. */
  readonly #candidates = new Map<Sequence, TokenCandidates>();
  readonly #request: EngineRequest;
  readonly #shape: RequestShape;
  /** Sampling state that the sequences share. */
  readonly #sampling: RequestSampling;
  readonly #tasks: ReadonlyMap<Sequence, SequenceTask>;
  readonly #ended = new Set<Sequence>();
  readonly #arrivalMs: number;
  #grammar: CompiledGrammar | null = null;
  #promptTold = false;

  /**
   * Makes `params.n` sequences, or those of them that have not ended elsewhere. Throws
   * INVALID_ARGUMENT where a token from elsewhere ends one of these.
   */
  constructor(request: EngineRequest, shape: RequestShape, birth: Birth) {
    this.#request = request;
    this.#shape = shape;
    this.#arrivalMs = birth.nowMs;
    this.key = request.key;
    const { beamWidth } = request.params;
    this.group = createGroup(request, shape, birth);
    this.#beams = beamWidth === null ? null : this.#createBeams();
    const candidates = this.#beams?.candidatesPerBeam ?? 0;
    this.#sampling = samplingOf(request, shape);
    const isFree = request.params.structuredOutput === null;
    const newDrafter = drafterMaker(request, shape);
    const indices = liveIndices(request);
    this.#tasks = new Map(
      this.sequences.map((sequence, place) => {
        const index = indices[place] ?? place;
        const sampling = isFree ? this.#createSampling(index, null) : null;
        return [sequence, createTask(request, shape, { index, candidates, sampling, newDrafter })];
      }),
    );
  }

  /** One sequence that samples no token: its hidden states are pooled. */
  static forEmbedding(embed: EmbedRequest, shape: RequestShape, birth: Birth): RequestRecord {
    const { newPool, tokensMax } = shape.embedding();
    checkEmbedLength(embed, tokensMax);
    const { key, promptTokenIds, skippedTokens = 0 } = embed;
    const request = { ...EMBEDDING, key, promptTokenIds, requestId: `embedding-${key}` };
    const record = new RequestRecord(request, shape, birth);
    const [lead] = record.sequences;
    assert(lead !== undefined, "Cannot embed without a sequence");
    record.taskOf(lead).hiddenPool = newPool(skippedTokens);
    return record;
  }

  get sequences(): readonly Sequence[] {
    return this.group.sequences;
  }

  /** Have all sequences ended? */
  get done(): boolean {
    return this.#ended.size === this.sequences.length;
  }

  taskOf(sequence: Sequence): SequenceTask {
    const task = this.#tasks.get(sequence);
    assert(task !== undefined, "Cannot find a task: the sequence is another request's");
    return task;
  }

  /** Records an ended sequence. The engine frees its task, which a step may still use. */
  end(sequence: Sequence): void {
    if (this.#ended.has(sequence)) return;
    this.#ended.add(sequence);
    // Who wants no drafts has no part in them.
    if (this.taskOf(sequence).drafter !== null) keepOutput(this.#request, sequence, this.#shape);
    if (!this.done) return;
    const grammar = this.#grammar;
    this.#grammar = null;
    disposeOf(grammar);
  }

  /** Compiles the request's grammar: its sequences can sample then. Throws GRAMMAR_INVALID. */
  async compile(compiler: Pick<GrammarCompiler, "compile">): Promise<void> {
    const { structuredOutput } = this.#request.params;
    assert(structuredOutput !== null, "Cannot compile: the request has no grammar");
    const grammar = await compiler.compile(structuredOutput);
    if (this.done) {
      disposeOf(grammar);
      return;
    }
    this.#grammar = grammar;
    for (const [sequence, task] of this.#tasks) {
      if (this.#ended.has(sequence)) continue;
      task.sampling = this.#createSampling(task.index, grammar);
    }
  }

  /** The finished embedding, for a sequence that was made for one. */
  embedding(sequence: Sequence): Float32Array | null {
    const { hiddenPool } = this.taskOf(sequence);
    return hiddenPool !== null && sequence.finished ? hiddenPool.vector() : null;
  }

  /**
   * Advances the sequence's penalties and grammar. `complete`: its structured output ended,
   * regardless of the stop rules.
   */
  acceptTokens(sequence: Sequence, tokenIds: readonly number[]): "open" | "complete" {
    const { sampling } = this.taskOf(sequence);
    assert(sampling !== null, "Cannot accept tokens before the grammar is compiled");
    for (const token of tokenIds) sampling.accept(token);
    return sampling.terminated ? "complete" : "open";
  }

  output(update: SequenceUpdate, result: ItemResult | undefined, nowMs: number): SequenceOutput {
    const { sequence, tokenIds } = update;
    const { logprobs = null, drafted = 0 } = result ?? {};
    const { state } = sequence;
    const output: SequenceOutput & { draftedTokens?: number } = {
      key: this.key,
      index: this.taskOf(sequence).index,
      tokenIds,
      logprobs: logprobs === null ? null : logprobs.slice(0, tokenIds.length),
      finishReason: state.phase === "finished" ? state.reason : null,
      stopReason: state.phase === "finished" ? state.stopReason : null,
      beam: null,
      prompt: this.#promptOutput(update),
      heldBlockMs: sequence.blockTable.occupation.blockMsAt(nowMs),
    };
    // Not spread: many sequences have drafts in every step, and the next step waits.
    if (drafted > 0) output.draftedTokens = drafted;
    return output;
  }

  /**
   * Takes the candidates of one beam. Once all live beams have theirs: how each continues, or
   * "over"; null before that. Throws ENGINE_STEP_FAILED where no token has a finite
   * log-probability.
   */
  advanceBeams(
    sequence: Sequence,
    candidates: TokenCandidates,
  ): readonly BeamContinuation[] | "over" | null {
    const beams = this.#beams;
    assert(beams !== null, "Cannot advance beams: the request samples tokens");
    this.#candidates.set(sequence, candidates);
    if (!beams.sequences.every((beam) => this.#candidates.has(beam))) return null;
    const next = beams.advance((beam) => {
      const row = this.#candidates.get(beam);
      assert(row !== undefined, "Cannot advance: a beam has no candidates");
      return row;
    });
    this.#candidates.clear();
    return next ?? "over";
  }

  /** Records the sequence of each beam that `advanceBeams` returned, in its order. */
  continueBeams(sequences: readonly Sequence[]): void {
    this.#beams?.continueWith(sequences);
  }

  /** The outputs of a finished search, best first. */
  beamOutputs(nowMs: number): SequenceOutput[] {
    const [lead] = this.sequences;
    assert(
      this.#beams !== null && lead !== undefined,
      "Cannot return beams: the request samples tokens",
    );
    const heldBlockMs = this.sequences.reduce(
      (sum, { blockTable }) => sum + blockTable.occupation.blockMsAt(nowMs),
      0,
    );
    return this.#beams.outputs({ key: this.key, prompt: this.#promptOf(lead), heldBlockMs });
  }

  #createSampling(index: number, grammar: CompiledGrammar | null): SequenceSampling {
    const seed = this.#request.seed + BigInt(index);
    const matcher = grammar === null ? null : () => grammar.createMatcher();
    const sampling = new SequenceSampling({ seed, matcher, request: this.#sampling });
    for (const token of earlierTokens(this.#request, index)) sampling.accept(token);
    return sampling;
  }

  #createBeams(): BeamRecord {
    const [lead] = this.sequences;
    assert(lead !== undefined, "Cannot search without a sequence");
    const { contextTokensMax } = this.#shape;
    const { promptLength, stop } = lead;
    const newTokensMax = Math.max(1, generatedTokensMax(stop, { promptLength, contextTokensMax }));
    return new BeamRecord({ params: this.#request.params, stop, newTokensMax, lead });
  }

  /** Goes with the first tokens, which are the first sequence's unless it was aborted before. */
  #promptOutput({ sequence }: SequenceUpdate): PromptOutput | null {
    if (this.#promptTold) return null;
    this.#promptTold = true;
    return this.#promptOf(sequence);
  }

  #promptOf(sequence: Sequence): PromptOutput {
    const task = this.taskOf(sequence);
    const queuedMs = (sequence.firstScheduledMs ?? this.#arrivalMs) - this.#arrivalMs;
    return {
      cachedTokens: foundTokens(sequence, this.#request),
      queueSeconds: queuedMs / MS_PER_SECOND,
      promptLogprobs: task.promptLogprobs?.rows ?? null,
      promptLogits: task.promptLogits?.values ?? null,
    };
  }
}

/** What a text to embed has of a request: it samples no token, and computes all of its own. */
const EMBEDDING = {
  params: SamplingParams.parse({ temperature: 0, maxTokens: 1, skipReadingPrefixCache: true }),
  ...{ seed: 0n, cacheSalt: null, retention: null, priority: 0 },
  ...{ badWordTokenIds: [], thinking: null, promptLogits: false },
  ...{ draftShape: null, predictedTokenIds: null },
} satisfies Partial<EngineRequest>;

/** `n` sequences, or one per beam. They share the prompt's ids, and what is made of the options. */
function createGroup(
  request: EngineRequest,
  shape: RequestShape,
  { firstId, nowMs, occupation }: Birth,
): SequenceGroup {
  const { requestId, params, promptTokenIds, priority, cacheSalt } = request;
  const { beamWidth, skipReadingPrefixCache } = params;
  const { contextTokensMax } = shape;
  const stop = stopRules(params, shape);
  const shared = {
    ...{ requestId, promptTokenIds, priority, cacheSalt, stop },
    arrivalMs: nowMs,
    retention: sequenceRetention(request, shape),
    awaitsGrammar: params.structuredOutput !== null,
  };
  const sequences = liveIndices(request).map((index, place) => {
    const computesAll = skipReadingPrefixCache || (index === 0 && wantsPromptRows(request));
    const id = sequenceId(firstId + place);
    const generatedTokenIds = earlierTokens(request, index);
    checkOpen(request, index, { stop, contextTokensMax });
    return new Sequence({
      ...{ ...shared, id, generatedTokenIds, skipReadingPrefixCache: computesAll },
      ...(occupation !== undefined && place === 0 && { occupation }),
    });
  });
  return new SequenceGroup({
    requestId,
    sequences,
    kind: beamWidth === null ? "samples" : "beams",
  });
}

/** The request's retention, per block. */
function sequenceRetention(
  { retention, promptTokenIds }: EngineRequest,
  { blockTokens }: RequestShape,
): SequenceRetention | null {
  if (retention === null) return null;
  return {
    prompt: promptRetention(retention, promptTokenIds.length, blockTokens),
    decode: decodeRetention(retention),
  };
}

function stopRules(params: SamplingParams, shape: RequestShape): StopRules {
  return {
    maxTokens: params.maxTokens,
    minTokens: params.minTokens,
    ignoreEos: params.ignoreEos,
    eosTokenIds: new Set(shape.eosTokenIds),
    stopTokenIds: new Set(params.stopTokenIds),
    repetition: params.repetitionDetection,
  };
}

function samplingOf(request: EngineRequest, shape: RequestShape): RequestSampling {
  return new RequestSampling({
    params: request.params,
    promptTokens: request.promptTokenIds,
    vocabularySize: shape.vocabularySize,
    endTokenIds: shape.eosTokenIds,
    badWords: request.badWordTokenIds,
    thinking: request.thinking,
  });
}
