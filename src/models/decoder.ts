import { assert } from "#base";
import type { Activation, Device, DeviceTensor, KvCache } from "#devices";
import {
  allocateDecoderBuffers,
  type DecoderBuffers,
  type DecoderLimits,
  denseKey,
} from "./decoder-buffers.ts";
import type { DecoderSpec, FeedForwardSpec, LayerSpec } from "./decoder-spec.ts";
import type { DecoderWeights, LayerWeights, NormWeights } from "./decoder-weights.ts";
import { ropeTable } from "./rope.ts";
import type { StepInput } from "./step-input.ts";
import { type StagedStep, StepStage } from "./step-stage.ts";
import { checkStreaming, layerWindow, type Streaming } from "./streaming.ts";

export interface DecoderOptions {
  readonly device: Device;
  readonly spec: DecoderSpec;
  readonly weights: DecoderWeights;
  readonly limits: DecoderLimits;
  /** Windows, and maybe sinks, for every layer. Default: only those of the model. */
  readonly streaming?: Streaming | null;
}

/** Decoders so far: several may share a device, and their replayed steps are told apart. */
let decoders = 0;

/**
 * Runs a decoder described by data. `stage` copies a step's input to the device, `forward` enqueues
 * all layers, `hidden` and `logits` read rows of the result. Nothing is allocated after the
 * constructor, and nothing but `stage` and row numbers moves from the host.
 *
 * A step that draws from all of its rows is one that devices replay: it is filled up with sequences
 * of no context to one of few sizes, and its logits belong to it (`drawnLogits`).
 *
 * A layer adds its branches to the residual stream `x`. Where a branch has a norm of its own, its
 * sum with `x` is left to the next norm (`delta`); everywhere else the branch's last linear adds.
 */
export class Decoder {
  readonly spec: DecoderSpec;
  readonly #device: Device;
  readonly #weights: DecoderWeights;
  readonly #limits: DecoderLimits;
  readonly #buffers: DecoderBuffers;
  readonly #streaming: Streaming | null;
  /** [positions, rotaryDim] f32. */
  readonly #rope: DeviceTensor | null;
  readonly #stage: StepStage;
  readonly #name = `decoder ${decoders++}`;
  #tokens = 0;
  #staged: StagedStep | null = null;
  /** Sequences whose logits `forward` makes; 0: none. */
  #drawing = 0;
  /** What replayed steps were made for, and how often that changed. */
  #drawn: DeviceTensor | null = null;
  #cache: KvCache | null = null;
  #changes = 0;

  /** Throws OUT_OF_MEMORY, and INVALID_ARGUMENT for sinks that the model cannot have. */
  constructor(options: DecoderOptions) {
    const { device, spec, weights, limits, streaming = null } = options;
    if (streaming !== null) checkStreaming(spec, streaming);
    this.#streaming = streaming;
    this.spec = spec;
    this.#device = device;
    this.#weights = weights;
    this.#limits = limits;
    const branchNorms = weights.layers.some(
      (layer) => layer.postAttentionNorm !== null || layer.postFeedForwardNorm !== null,
    );
    const { format } = weights;
    const sinks = this.#sinkTokens > 0;
    this.#buffers = allocateDecoderBuffers(device, spec, { limits, format, branchNorms, sinks });
    this.#stage = new StepStage(device, limits);
    this.#rope = this.#allocateRope();
  }

  /** Most sequences of a step that draws from all of its rows. */
  get drawingMax(): number {
    const { stepTokensMax, sequencesMax, logitRowsMax } = this.#limits;
    return Math.min(stepTokensMax, sequencesMax, logitRowsMax);
  }

  /**
   * Makes `step` the next one to run. Its arrays may be reused when this returns. `drawn` [R] i32
   * is where `tokenSources` of this and of later steps are looked up when they run; it should
   * always be the same.
   */
  stage(step: StepInput, drawn?: DeviceTensor): void {
    const { stepTokensMax, sequencesMax } = this.#limits;
    const { tokens, sequences, tokenSources } = step;
    assert(
      tokens > 0 && tokens <= stepTokensMax && sequences > 0 && sequences <= sequencesMax,
      `Cannot stage ${tokens} tokens of ${sequences} sequences: at most ` +
        `${stepTokensMax} of ${sequencesMax} fit`,
    );
    if (drawn !== undefined && drawn !== this.#drawn) {
      this.#drawn = drawn;
      this.#changes++;
    }
    assert(
      tokenSources === undefined || this.#drawn !== null,
      "Cannot stage a step that takes drawn tokens: it is not known where they are",
    );
    const draws = step.draws === true && sequences <= this.drawingMax;
    this.#drawing = draws ? sequences : 0;
    this.#staged = draws ? this.#stageDrawing(step) : this.#stagePlain(step);
    this.#tokens = this.#staged.tokens;
  }

  /** Enqueues all layers for the staged step; keys and values go to `cache`. */
  forward(cache: KvCache): void {
    const staged = this.#staged;
    assert(staged !== null, "Cannot run a step: none is staged");
    if (this.#drawing === 0) {
      this.#runLayers(staged, cache);
      return;
    }
    if (cache !== this.#cache) {
      this.#cache = cache;
      this.#changes++;
    }
    const { tokens, batch } = staged;
    const contextLengthMax = this.paddedContext(batch.contextLengthMax, tokens, cache);
    const padded = { ...staged, batch: { ...batch, contextLengthMax } };
    this.#device.replay(`${this.#name} ${this.#changes} ${tokens} ${contextLengthMax}`, () => {
      this.#runLayers(padded, cache);
      this.#runHead(tokens);
    });
  }

  /** Most tokens of a sequence that block tables have room for. */
  contextTokensMax(cache: KvCache): number {
    return this.#limits.blocksPerSequenceMax * cache.blockTokens;
  }

  /** The context that drawing steps of `sequences`, padding counted, are replayed for. */
  paddedContext(contextTokens: number, sequences: number, cache: KvCache): number {
    const contextTokensMax = this.contextTokensMax(cache);
    const { format } = this.#weights;
    return this.#device.paddedContext({
      sequences,
      contextTokens,
      contextTokensMax,
      cache,
      format,
    });
  }

  /**
   * [S, V] f32: logits of the staged step's rows, in order, where it draws from all of them and
   * they were made by `forward`; else null. Valid until the next `forward` or `logits`.
   */
  drawnLogits(): DeviceTensor | null {
    if (this.#drawing === 0) return null;
    return this.#device.rows(this.#buffers.logits, 0, this.#drawing);
  }

  /**
   * [R, E] f32: the staged step's rows `rowIndices` after the final norm. Valid until the next call
   * of `hidden`.
   */
  hidden(rowIndices: Int32Array): DeviceTensor {
    const { hidden } = this.#buffers;
    this.#gatherNormed(rowIndices, hidden);
    return this.#device.rows(hidden, 0, rowIndices.length);
  }

  /** [R, V] f32: logits of the rows `rowIndices`. Valid until the next `logits` or `forward`. */
  logits(rowIndices: Int32Array): DeviceTensor {
    const { headInput, logits } = this.#buffers;
    const count = rowIndices.length;
    this.#gatherNormed(rowIndices, headInput);
    this.#headLogits(count);
    return this.#device.rows(logits, 0, count);
  }

  get #sinkTokens(): number {
    return this.#streaming?.sinkTokens ?? 0;
  }

  #allocateRope(): DeviceTensor | null {
    const { positions, contextTokensMax: modelTokens } = this.spec;
    if (positions.kind !== "rope") return null;
    const wanted = this.#limits.contextTokensMax ?? modelTokens;
    const contextTokens = this.#sinkTokens > 0 ? wanted : Math.min(wanted, modelTokens);
    const table = this.#device.allocate("f32", [contextTokens, positions.rotaryDim]);
    this.#device.write(table, ropeTable(positions, contextTokens, modelTokens));
    return table;
  }

  #stagePlain(step: StepInput): StagedStep {
    const { tokens, sequences, tokenSources } = step;
    return this.#stage.stage(step, { tokens, sequences, takes: tokenSources !== undefined });
  }

  /** Rounded up to a size that was, or will be, replayed; whether ids are taken does not matter. */
  #stageDrawing(step: StepInput): StagedStep {
    const { tokens, sequences, queryLengthMax, treeMask } = step;
    assert(
      tokens === sequences && queryLengthMax === 1 && treeMask === undefined,
      `Cannot draw from all rows: ${tokens} tokens of ${sequences} sequences, one each wanted`,
    );
    const padded = this.#device.paddedBatch(sequences, this.drawingMax);
    const takes = this.#drawn !== null;
    return this.#stage.stage(step, { tokens: padded, sequences: padded, takes });
  }

  #runLayers(staged: StagedStep, cache: KvCache): void {
    this.#spread(staged);
    this.#embed(staged);
    let delta: DeviceTensor | null = null;
    for (const [index, layer] of this.#weights.layers.entries()) {
      const spec = this.spec.layers[index];
      assert(spec !== undefined, `Cannot run layer ${index}: the spec has none`);
      delta = this.#layer({ layer, spec, index, cache, staged }, delta);
    }
    if (delta !== null) this.#device.add({ count: this.#tokens, x: this.#buffers.x, delta });
  }

  /** What was staged in a short form gets the form that ops read. */
  #spread({ tokens, tokenIds, tokenSources, batch, tableStarts, tableValues }: StagedStep): void {
    this.#device.spreadRows({
      ...{ count: batch.sequences, out: batch.blockTables },
      ...{ starts: tableStarts, values: tableValues },
    });
    if (tokenSources === null || this.#drawn === null) return;
    const sources = tokenSources;
    this.#device.takeTokens({ count: tokens, ids: tokenIds, drawn: this.#drawn, sources });
  }

  /** Logits of the first `count` rows of `x`. */
  #runHead(count: number): void {
    const { x, headInput } = this.#buffers;
    this.#device.norm({ count, out: headInput, x, ...this.#weights.finalNorm });
    this.#headLogits(count);
  }

  /** Logits of the first `count` rows of `headInput`. */
  #headLogits(count: number): void {
    const { headInput, logits } = this.#buffers;
    this.#device.linear({ count, out: logits, x: headInput, ...this.#weights.head });
    const cap = this.spec.finalSoftcap;
    if (cap !== null) this.#device.softcap({ count, x: logits, cap });
  }

  #embed({ tokens: count, tokenIds, positions }: StagedStep): void {
    const { x } = this.#buffers;
    const scale = this.spec.embeddingScale;
    this.#device.embed({ count, out: x, ids: tokenIds, table: this.#weights.tokens, scale });
    const table = this.#weights.positions;
    if (table === null || this.spec.positions.kind !== "learned") return;
    const { offset } = this.spec.positions;
    this.#device.embed({ count, out: x, ids: positions, table, offset, accumulate: true });
  }

  /** Takes and returns the branch that is still to be added to `x`; null: none. */
  #layer(run: LayerRun, delta: DeviceTensor | null): DeviceTensor | null {
    const { layer } = run;
    this.#norm(layer.attentionNorm, delta, this.#buffers.input);
    this.#attend(run);
    let pending = this.#addBranch(layer.postAttentionNorm, (out, accumulate) => {
      const x = this.#buffers.attended;
      this.#device.linear({ count: this.#tokens, out, x, accumulate, ...layer.attentionOutput });
    });

    if (layer.feedForwardNorm !== null) {
      this.#feedForwardNorm(layer.feedForwardNorm, pending, run.spec.feedForward);
      pending = null;
    }
    const branch = this.#addBranch(layer.postFeedForwardNorm, (out, accumulate) => {
      this.#feedForward(run, out, accumulate);
    });
    return branch ?? pending;
  }

  /** x += delta, out = norm(x). */
  #norm(norm: NormWeights, delta: DeviceTensor | null, out: Activation | DeviceTensor): void {
    const { x } = this.#buffers;
    this.#device.norm({ count: this.#tokens, out, x, ...norm, ...(delta !== null && { delta }) });
  }

  /** Lets `run` add to `x`, or with a norm of its own returns what is to be added. */
  #addBranch(
    norm: NormWeights | null,
    run: (out: DeviceTensor, accumulate: boolean) => void,
  ): DeviceTensor | null {
    const { x, branch } = this.#buffers;
    if (norm === null || branch === null) {
      run(x, true);
      return null;
    }
    run(branch.plain, false);
    this.#device.norm({ count: this.#tokens, out: branch.normed, x: branch.plain, ...norm });
    return branch.normed;
  }

  #attend({ layer, spec, index, cache, staged }: LayerRun): void {
    const { input, qkv, query, sinkQuery, attended } = this.#buffers;
    const { positions, slots, batch } = staged;
    const { heads, attentionScale: scale, attentionSoftcap: softcap } = this.spec;
    const count = this.#tokens;
    const window = layerWindow(spec, this.#streaming);
    const sinks =
      sinkQuery === null || window === null
        ? null
        : { tokens: this.#sinkTokens, query: sinkQuery, positionMax: window - 1 };
    this.#device.linear({ count, out: qkv, x: input, ...layer.qkv });
    this.#device.ropeKvWrite({
      ...{ count, qkv, query, heads, cache, layer: index, positions, slots },
      ...(this.#rope !== null && { rope: this.#rope }),
      ...(layer.queryNorm !== null && { queryNorm: layer.queryNorm }),
      ...(layer.keyNorm !== null && { keyNorm: layer.keyNorm }),
      normEpsilon: this.spec.norm.epsilon,
      ...(sinks !== null && {
        sinkQuery: { out: sinks.query, positionMax: sinks.positionMax },
      }),
    });
    this.#device.pagedAttention({
      ...{ count, out: attended, query, heads, cache, layer: index, batch, scale },
      ...(window !== null && { window }),
      ...(sinks !== null && { sinks: { tokens: sinks.tokens, query: sinks.query } }),
      ...(softcap !== null && { softcap }),
    });
  }

  /** A router that reads another format than its experts gets the norm's rows beside theirs. */
  #feedForwardNorm(norm: NormWeights, delta: DeviceTensor | null, spec: FeedForwardSpec): void {
    const { input, feedForward } = this.#buffers;
    const router = spec.kind === "experts" ? feedForward.experts?.router : null;
    if (!router) {
      this.#norm(norm, delta, input);
      return;
    }
    this.#norm(norm, delta, router.normed);
    this.#device.convert({ count: this.#tokens, out: input, x: router.normed });
    this.#device.convert({ count: this.#tokens, out: router.input, x: router.normed });
  }

  #feedForward({ layer, spec }: LayerRun, out: DeviceTensor, accumulate: boolean): void {
    const { feedForward: weights } = layer;
    const { feedForward } = spec;
    const { input: x, feedForward: buffers } = this.#buffers;
    const count = this.#tokens;
    if (weights.kind === "dense" && feedForward.kind === "dense") {
      const scratch = buffers.dense.get(denseKey(feedForward));
      assert(scratch !== undefined, "Cannot run a layer: it has no scratch");
      const { activation: kind, gated } = feedForward;
      const { input: room, output: activated } = scratch;
      const activate = { kind, gated, out: activated, scratch: room };
      this.#device.linearActivate({ count, x, ...weights.input, ...activate });
      this.#device.linear({ count, out, x: activated, accumulate, ...weights.output });
      return;
    }
    const experts = buffers.experts;
    assert(
      weights.kind === "experts" && feedForward.kind === "experts" && experts !== null,
      "Cannot run a layer: its weights are of another kind than its spec",
    );
    const { routerLogits, router } = experts;
    const { expertsPerToken, normalize, activation: kind } = feedForward;
    const { gateUp, down } = weights;
    this.#device.linear({ count, out: routerLogits, x: router?.input ?? x, ...weights.router });
    this.#device.mixtureOfExperts({
      ...{ count, out, x, routerLogits, expertsPerToken, normalize, kind, gateUp, down },
      accumulate,
    });
  }

  /** The final norm of rows `rowIndices` of `x`. */
  #gatherNormed(rowIndices: Int32Array, out: Activation | DeviceTensor): void {
    const { x, rowIndices: indices, gathered } = this.#buffers;
    const count = rowIndices.length;
    assert(
      count > 0 && count <= this.#limits.logitRowsMax,
      `Cannot read ${count} rows: at most ${this.#limits.logitRowsMax} fit`,
    );
    this.#device.write(indices, rowIndices);
    this.#device.gatherRows({ count, out: gathered, x, indices });
    this.#device.norm({ count, out, x: gathered, ...this.#weights.finalNorm });
  }
}

/** One layer in one step. */
interface LayerRun {
  readonly layer: LayerWeights;
  readonly spec: LayerSpec;
  readonly index: number;
  readonly cache: KvCache;
  readonly staged: StagedStep;
}
