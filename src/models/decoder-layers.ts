/** Runs all layers of a decoder over a staged step, in given buffers. */
import { assert } from "#base";
import type {
  Activation,
  Device,
  DeviceTensor,
  KvPool,
  PagedAttentionInput,
  RopeKvWriteInput,
} from "#devices";
import { type DecoderBuffers, denseKey } from "./decoder-buffers.ts";
import type { DecoderSpec, FeedForwardSpec, LayerSpec } from "./decoder-spec.ts";
import type { DecoderWeights, LayerWeights, NormWeights } from "./decoder-weights.ts";
import type { KvLayout } from "./kv-layout.ts";
import type { StagedGroup, StagedStep, WantedRows } from "./step-stage.ts";
import { layerWindow, type Streaming } from "./streaming.ts";

export interface DecoderLayersParts {
  readonly device: Device;
  readonly spec: DecoderSpec;
  readonly layout: KvLayout;
  readonly weights: DecoderWeights;
  readonly buffers: DecoderBuffers;
  readonly streaming: Streaming | null;
  /** [positions, rotaryDim] f32; null without rotary positions. */
  readonly rope: DeviceTensor | null;
  readonly taps: LayerTaps;
}

/** Layers whose inputs are kept for a drafter. */
export interface LayerTaps {
  readonly layers: readonly number[];
  /** [T, E] f32 of each. */
  readonly inputs: readonly DeviceTensor[];
  /** [T] i32: 0, 1, 2 and so on; null: nothing is kept. */
  readonly rows: DeviceTensor | null;
}

/** Rows of the residual stream that are still computed. */
interface LiveRows {
  readonly count: number;
  /** [count, E] f32. */
  readonly x: DeviceTensor;
}

/** One layer in one step. */
interface LayerRun {
  readonly layer: LayerWeights;
  readonly spec: LayerSpec;
  /** What its attention is told in every step. */
  readonly attention: LayerAttention;
  /** The slots and tables of its group. */
  readonly group: StagedGroup;
  readonly staged: StagedStep;
  /** Rows that are computed after this layer's attention; null: all. */
  readonly wanted: WantedRows | null;
}

/**
 * What the attention of a layer is told in every step, for one pool. Made once: objects that are
 * spread from many parts cost a small step more than the calls of their ops do. For the same reason
 * what is spread into an op's input is its last part: V8 takes microseconds where fields follow it.
 */
interface LayerAttention {
  readonly writeKeys: Omit<RopeKvWriteInput, "count" | "positions" | "slots">;
  readonly attend: Omit<PagedAttentionInput, "count" | "batch">;
}

/**
 * A layer adds its branches to the residual stream `x`. Where a branch has a norm of its own, its
 * sum with `x` is left to the next norm (`delta`); everywhere else the branch's last linear adds.
 *
 * Only the wanted rows of the last layer are used: after its attention only those are computed, and
 * where none are wanted the layer ends with its keys and values.
 */
export class DecoderLayers {
  readonly #parts: DecoderLayersParts;
  #rows: LiveRows;
  /** Of all layers, and the pool that they were made for. */
  #attention: readonly LayerAttention[] = [];
  #cache: KvPool | null = null;

  constructor(parts: DecoderLayersParts) {
    this.#parts = parts;
    this.#rows = { count: 0, x: parts.buffers.x };
  }

  /**
   * Enqueues all layers; keys and values go to `cache`, ids with a source are read from `sampled`.
   * The result is in `buffers.x`, a row for each token, or in `buffers.kept.x`, a row for each
   * wanted one.
   */
  run(staged: StagedStep, cache: KvPool, sampled: DeviceTensor | null): void {
    const { buffers, spec: decoder, layout, weights, device } = this.#parts;
    this.#rows = { count: staged.tokens, x: buffers.x };
    const attentions = this.#attentionIn(cache);
    this.#spread(staged, sampled);
    // A part that does not begin has its input in `x`.
    if (decoder.part?.begins !== false) this.#embed(staged);
    let delta: DeviceTensor | null = null;
    const last = weights.layers.length - 1;
    for (const [index, layer] of weights.layers.entries()) {
      const spec = decoder.layers[index];
      assert(spec !== undefined, `Cannot run layer ${index}: the spec has none`);
      const wanted = index === last ? staged.wantedRows : null;
      const group = staged.groups[layout.places[index]?.group ?? -1];
      const attention = attentions[index];
      assert(
        group !== undefined && attention !== undefined,
        `Cannot run layer ${index}: the KV pool has no layer for it`,
      );
      this.#keepTap(index, delta);
      delta = this.#layer({ layer, spec, attention, group, staged, wanted }, delta);
    }
    if (delta !== null) device.add({ ...this.#rows, delta });
  }

  /** Copies the input of a layer, `x` and what is not yet added to it, if a drafter reads it. */
  #keepTap(layer: number, delta: DeviceTensor | null): void {
    const { device, taps } = this.#parts;
    if (taps.rows === null) return;
    const out = taps.inputs[taps.layers.indexOf(layer)];
    if (out === undefined) return;
    const { count, x } = this.#rows;
    device.gatherRows({ count, out, x, indices: taps.rows });
    if (delta !== null) device.add({ count, x: out, delta });
  }

  /** Expands inputs that were staged in a compact form to the form that ops read. */
  #spread(staged: StagedStep, sampled: DeviceTensor | null): void {
    const { device } = this.#parts;
    const { tokens, sequences, tokenIds, tokenSources, groups, tableValues: values } = staged;
    for (const { batch, tableStarts: starts } of groups) {
      device.spreadRows({ count: sequences, out: batch.blockTables, starts, values });
    }
    if (tokenSources === null || sampled === null) return;
    device.takeTokens({ count: tokens, ids: tokenIds, sampled, sources: tokenSources });
  }

  #embed({ tokenIds, positions }: StagedStep): void {
    const { device, spec, weights } = this.#parts;
    const { count, x } = this.#rows;
    const { tokens } = weights;
    assert(tokens !== null, "Cannot embed tokens: the token table is not loaded");
    const scale = spec.embeddingScale;
    device.embed({ count, out: x, ids: tokenIds, table: tokens, scale });
    const table = weights.positions;
    if (table === null || spec.positions.kind !== "learned") return;
    const { offset } = spec.positions;
    device.embed({ count, out: x, ids: positions, table, offset, accumulate: true });
  }

  /** Takes and returns the pending branch output that is not yet added to `x`; null: none. */
  #layer(run: LayerRun, delta: DeviceTensor | null): DeviceTensor | null {
    const { layer, wanted } = run;
    const { device, buffers } = this.#parts;
    this.#norm(layer.attentionNorm, delta, buffers.input);
    this.#writeKeys(run);
    if (wanted?.count === 0) {
      this.#rows = { count: 0, x: buffers.kept.x };
      return null;
    }
    this.#attend(run);
    // Without a norm of its own the feed-forward reads the attention's input.
    if (wanted !== null && layer.feedForwardNorm === null) this.#keepInput(layer, wanted);
    const attended = this.#addBranch(layer.postAttentionNorm, (out, accumulate) => {
      const { count } = this.#rows;
      device.linear({ count, out, x: buffers.attended, accumulate, ...layer.attentionOutput });
    });
    let pending = wanted === null ? attended : this.#keepRows(wanted, attended);
    if (layer.feedForwardNorm !== null) {
      this.#feedForwardNorm(layer.feedForwardNorm, pending, run.spec.feedForward);
      pending = null;
    }
    const branch = this.#addBranch(layer.postFeedForwardNorm, (out, accumulate) => {
      this.#feedForward(run, out, accumulate);
    });
    return branch ?? pending;
  }

  /** From here on only `wanted` rows are computed. Takes and returns the pending addend of `x`. */
  #keepRows({ count, indices }: WantedRows, delta: DeviceTensor | null): DeviceTensor | null {
    const { device, buffers } = this.#parts;
    const { kept } = buffers;
    device.gatherRows({ count, out: kept.x, x: this.#rows.x, indices });
    this.#rows = { count, x: kept.x };
    if (delta === null || kept.delta === null) return delta;
    device.gatherRows({ count, out: kept.delta, x: delta, indices });
    return kept.delta;
  }

  /** Repeats the attention's norm for the `wanted` rows alone. */
  #keepInput({ attentionNorm }: LayerWeights, { count, indices }: WantedRows): void {
    const { device, buffers } = this.#parts;
    const { input: out, kept } = buffers;
    device.gatherRows({ count, out: kept.x, x: this.#rows.x, indices });
    device.norm({ count, out, x: kept.x, ...attentionNorm });
  }

  /** x += delta, out = norm(x). */
  #norm(norm: NormWeights, delta: DeviceTensor | null, out: Activation | DeviceTensor): void {
    const { device } = this.#parts;
    const { count, x } = this.#rows;
    if (delta === null) device.norm({ count, x, out, ...norm });
    else device.norm({ count, x, out, delta, ...norm });
  }

  /** Lets `run` add to `x`, or with a norm of its own returns the pending addend. */
  #addBranch(
    norm: NormWeights | null,
    run: (out: DeviceTensor, accumulate: boolean) => void,
  ): DeviceTensor | null {
    const { device, buffers } = this.#parts;
    const { branch } = buffers;
    const { count, x } = this.#rows;
    if (norm === null || branch === null) {
      run(x, true);
      return null;
    }
    run(branch.plain, false);
    device.norm({ count, out: branch.normed, x: branch.plain, ...norm });
    return branch.normed;
  }

  /** Keys and values of all rows go to the cache, their queries to `query`. */
  #writeKeys({ layer, attention, group: { slots }, staged: { positions } }: LayerRun): void {
    const { device, buffers } = this.#parts;
    const { count } = this.#rows;
    device.linear({ count, out: buffers.qkv, x: buffers.input, ...layer.qkv });
    device.ropeKvWrite({ count, positions, slots, ...attention.writeKeys });
  }

  #attend({ attention, group: { batch } }: LayerRun): void {
    const { count } = this.#rows;
    this.#parts.device.pagedAttention({ count, batch, ...attention.attend });
  }

  /** What each layer's attention is told with this pool. */
  #attentionIn(cache: KvPool): readonly LayerAttention[] {
    if (cache === this.#cache) return this.#attention;
    const { spec, weights, layout } = this.#parts;
    this.#attention = weights.layers.map((layer, index) => {
      const [layerSpec, place] = [spec.layers[index], layout.places[index]];
      assert(
        layerSpec !== undefined && place !== undefined,
        `Cannot run layer ${index}: the spec or the KV pool has none`,
      );
      return this.#attentionOf(layer, layerSpec, { cache, layer: place.layer, scaleLayer: index });
    });
    this.#cache = cache;
    return this.#attention;
  }

  #attentionOf(
    layer: LayerWeights,
    spec: LayerSpec,
    where: Pick<PagedAttentionInput, "cache" | "layer" | "scaleLayer">,
  ): LayerAttention {
    const { buffers, rope, streaming } = this.#parts;
    const { heads, norm, attentionScale: scale, attentionSoftcap: softcap } = this.#parts.spec;
    const { qkv, query, attended: out } = buffers;
    const window = layerWindow(spec, streaming);
    const sinks = this.#sinksOf(spec);
    return {
      writeKeys: {
        ...{ ...where, qkv, query, heads, normEpsilon: norm.epsilon },
        ...(rope !== null && { rope }),
        ...(layer.queryNorm !== null && { queryNorm: layer.queryNorm }),
        ...(layer.keyNorm !== null && { keyNorm: layer.keyNorm }),
        ...(sinks !== null && {
          sinkQuery: { out: sinks.query, positionMax: sinks.positionMax },
        }),
      },
      attend: {
        ...{ ...where, out, query, heads, scale },
        ...(window !== null && { window }),
        ...(sinks !== null && { sinks: { tokens: sinks.tokens, query: sinks.query } }),
        ...(softcap !== null && { softcap }),
      },
    };
  }

  #sinksOf(spec: LayerSpec): Sinks | null {
    const { buffers, streaming } = this.#parts;
    const { sinkQuery: query } = buffers;
    const window = layerWindow(spec, streaming);
    if (query === null || window === null) return null;
    return { tokens: streaming?.sinkTokens ?? 0, query, positionMax: window - 1 };
  }

  /** A router with another format than its experts gets a second copy of the norm's rows. */
  #feedForwardNorm(norm: NormWeights, delta: DeviceTensor | null, spec: FeedForwardSpec): void {
    const { device, buffers } = this.#parts;
    const { input, feedForward } = buffers;
    const { count } = this.#rows;
    const router = spec.kind === "experts" ? feedForward.experts?.router : null;
    if (!router) {
      this.#norm(norm, delta, input);
      return;
    }
    this.#norm(norm, delta, router.normed);
    device.convert({ count, out: input, x: router.normed });
    device.convert({ count, out: router.input, x: router.normed });
  }

  #feedForward({ layer, spec }: LayerRun, out: DeviceTensor, accumulate: boolean): void {
    const { device } = this.#parts;
    const { feedForward: weights } = layer;
    const { feedForward } = spec;
    const { input: x, feedForward: buffers } = this.#parts.buffers;
    const { count } = this.#rows;
    if (weights.kind === "dense" && feedForward.kind === "dense") {
      const scratch = buffers.dense.get(denseKey(feedForward));
      assert(scratch !== undefined, "Cannot run a layer: it has no scratch");
      const { activation: kind, gated } = feedForward;
      const { input: room, output: activated } = scratch;
      const { input } = weights;
      device.linearActivate({ count, x, kind, gated, out: activated, scratch: room, ...input });
      device.linear({ count, out, x: activated, accumulate, ...weights.output });
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
    device.linear({ count, out: routerLogits, x: router?.input ?? x, ...weights.router });
    device.mixtureOfExperts({
      ...{ count, out, x, routerLogits, expertsPerToken, normalize, kind, gateUp, down },
      accumulate,
    });
  }
}

/** Attention sinks of a layer with a window. */
interface Sinks {
  readonly tokens: number;
  readonly query: DeviceTensor;
  readonly positionMax: number;
}
