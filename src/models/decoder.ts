import { assert } from "#base";
import type { Activation, AttentionBatch, Device, DeviceTensor, KvCache } from "#devices";
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
import { checkStreaming, layerWindow, type Streaming } from "./streaming.ts";

export interface DecoderOptions {
  readonly device: Device;
  readonly spec: DecoderSpec;
  readonly weights: DecoderWeights;
  readonly limits: DecoderLimits;
  /** Windows, and maybe sinks, for every layer. Default: only those of the model. */
  readonly streaming?: Streaming | null;
}

/**
 * Runs a decoder described by data. `stage` copies a step's input to the device, `forward` enqueues
 * all layers, `hidden` and `logits` read rows of the result. Nothing is allocated after the
 * constructor, and nothing but `stage` and row numbers moves from the host, so that a device may
 * record `forward` once and replay it.
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
  #tokens = 0;
  #batch: AttentionBatch | null = null;

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
    this.#rope = this.#allocateRope();
  }

  /** Makes `step` the next one to run. Its arrays may be reused when this returns. */
  stage(step: StepInput): void {
    const { stepTokensMax, sequencesMax, blocksPerSequenceMax } = this.#limits;
    const { tokens, sequences } = step;
    assert(
      tokens > 0 && tokens <= stepTokensMax && sequences > 0 && sequences <= sequencesMax,
      `Cannot stage ${tokens} tokens of ${sequences} sequences: at most ` +
        `${stepTokensMax} of ${sequencesMax} fit`,
    );
    const buffers = this.#buffers;
    const tables = sequences * blocksPerSequenceMax;
    this.#device.write(buffers.tokenIds, step.tokenIds.subarray(0, tokens));
    this.#device.write(buffers.positions, step.positions.subarray(0, tokens));
    this.#device.write(buffers.slots, step.slots.subarray(0, tokens));
    this.#device.write(buffers.queryStarts, step.queryStarts.subarray(0, sequences + 1));
    this.#device.write(buffers.contextLengths, step.contextLengths.subarray(0, sequences));
    this.#device.write(buffers.blockTables, step.blockTables.subarray(0, tables));
    this.#tokens = tokens;
    this.#batch = {
      sequences,
      queryStarts: buffers.queryStarts,
      contextLengths: buffers.contextLengths,
      blockTables: buffers.blockTables,
      queryLengthMax: step.queryLengthMax,
      contextLengthMax: step.contextLengthMax,
      ...this.#stageTreeMask(step),
    };
  }

  /** Enqueues all layers for the staged step; keys and values go to `cache`. */
  forward(cache: KvCache): void {
    const batch = this.#batch;
    assert(batch !== null, "Cannot run a step: none is staged");
    this.#embed();
    let delta: DeviceTensor | null = null;
    for (const [index, layer] of this.#weights.layers.entries()) {
      const spec = this.spec.layers[index];
      assert(spec !== undefined, `Cannot run layer ${index}: the spec has none`);
      delta = this.#layer({ layer, spec, index, cache, batch }, delta);
    }
    if (delta !== null) this.#device.add({ count: this.#tokens, x: this.#buffers.x, delta });
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

  /** [R, V] f32: logits of the rows `rowIndices`. Valid until the next call of `logits`. */
  logits(rowIndices: Int32Array): DeviceTensor {
    const { headInput, logits } = this.#buffers;
    const count = rowIndices.length;
    this.#gatherNormed(rowIndices, headInput);
    this.#device.linear({ count, out: logits, x: headInput, ...this.#weights.head });
    const cap = this.spec.finalSoftcap;
    if (cap !== null) this.#device.softcap({ count, x: logits, cap });
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

  #stageTreeMask(step: StepInput): { readonly treeMask?: DeviceTensor } {
    if (step.treeMask === undefined) return {};
    const { treeMask } = this.#buffers;
    assert(treeMask !== null, "Cannot stage a tree mask: the limits allow none");
    const words = treeMask.shape[1] ?? 0;
    this.#device.write(treeMask, step.treeMask.subarray(0, step.tokens * words));
    return { treeMask };
  }

  #embed(): void {
    const { x, tokenIds, positions } = this.#buffers;
    const count = this.#tokens;
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

  #attend({ layer, spec, index, cache, batch }: LayerRun): void {
    const { input, qkv, query, sinkQuery, attended, positions, slots } = this.#buffers;
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
      this.#device.linear({ count, out: scratch.input, x, ...weights.input });
      this.#device.activate({ count, kind, out: scratch.output, x: scratch.input, gated });
      this.#device.linear({ count, out, x: scratch.output, accumulate, ...weights.output });
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
  readonly batch: AttentionBatch;
}
