import { assert, intAt } from "#base";
import type { Activation, Device, DeviceTensor, KvPool } from "#devices";
import {
  allocateDecoderBuffers,
  type DecoderBuffers,
  type DecoderLimits,
} from "./decoder-buffers.ts";
import { DecoderLayers, type LayerTaps } from "./decoder-layers.ts";
import type { DecoderSpec } from "./decoder-spec.ts";
import type { DecoderWeights, NormWeights } from "./decoder-weights.ts";
import { type KvLayout, plainLayout } from "./kv-layout.ts";
import { ropeTable } from "./rope.ts";
import { areEqual, isCount, placesOf } from "./row-numbers.ts";
import type { StepInput } from "./step-input.ts";
import { type StagedStep, StepStage, withContext } from "./step-stage.ts";
import { checkStreaming, type Streaming } from "./streaming.ts";

export interface DecoderOptions {
  readonly device: Device;
  readonly spec: DecoderSpec;
  readonly weights: DecoderWeights;
  readonly limits: DecoderLimits;
  /** Windows, and optionally sinks, for every layer. Default: only those of the model. */
  readonly streaming?: Streaming | null;
  /**
   * Length of the longest served sequence, given by the model and the settings, not by memory; the
   * model's context by default. LongRoPE's factors depend on it.
   */
  readonly servedTokens?: number;
  /** Which layers share blocks of the cache. Default: all. */
  readonly layout?: KvLayout;
  /** Layers whose inputs are kept: `Decoder.tapped`. Default: none. */
  readonly taps?: readonly number[];
  /** Whether steps end with their keys and values, and no row is read. Default: false. */
  readonly cachesOnly?: boolean;
}

/** Most rows of a step that does not sample from all of them and is kept for later ones. */
const REPLAYED_ROWS_MAX = 16;

/** Rows that are read of a step that ends with its keys and values. */
const NO_ROWS = new Int32Array(0);

/** Number of decoders so far: several may share a device, and their graphs need distinct keys. */
let decoders = 0;

/**
 * Runs a decoder described by data. `stage` copies a step's input to the device, `forward` enqueues
 * all layers, `hidden` and `logits` read rows of the result. Nothing is allocated after the
 * constructor, and only `stage` and row numbers copy from the host.
 *
 * A step that samples from all of its rows is replayed by the device: it is padded with sequences
 * of no context to one of few sizes, and its logits belong to it (`samplingLogits`). Of other steps
 * the last layer computes only the wanted rows (`StepInput.wantedRows`), and of none any row where
 * the decoder only caches.
 */
export class Decoder {
  readonly spec: DecoderSpec;
  readonly layout: KvLayout;
  /**
   * [T, E] f32 of each layer in `DecoderOptions.taps`: its input in the step that ran last, a row
   * for each token.
   */
  readonly tapped: readonly DeviceTensor[];
  readonly #device: Device;
  readonly #weights: DecoderWeights;
  readonly #limits: DecoderLimits;
  readonly #buffers: DecoderBuffers;
  readonly #streaming: Streaming | null;
  readonly #cachesOnly: boolean;
  /** The layers are a part without the output layer: all rows go on to the next part. */
  readonly #givesHidden: boolean;
  readonly #layers: DecoderLayers;
  readonly #stage: StepStage;
  readonly #name = `decoder ${decoders++}`;
  #staged: StagedStep | null = null;
  #tokens = 0;
  /** The wanted rows of the staged step; null: all. */
  #wanted: Int32Array | null = null;
  /** Sequences whose logits `forward` makes; 0: none. */
  #samplingCount = 0;
  /** `sampled` and cache of the captured steps, and the number of changes of either. */
  #sampled: DeviceTensor | null = null;
  #cache: KvPool | null = null;
  #changes = 0;

  /** Throws OUT_OF_MEMORY, and INVALID_ARGUMENT for sinks that the model does not support. */
  constructor(options: DecoderOptions) {
    const { device, spec, weights, limits, streaming = null } = options;
    const { servedTokens = spec.contextTokensMax, layout = plainLayout(spec) } = options;
    if (streaming !== null) checkStreaming(spec, streaming);
    this.#streaming = streaming;
    this.#cachesOnly = options.cachesOnly ?? false;
    this.#givesHidden = spec.part?.ends === false;
    this.spec = spec;
    this.layout = layout;
    this.#device = device;
    this.#weights = weights;
    this.#limits = limits;
    const branchNorms = weights.layers.some(
      (layer) => layer.postAttentionNorm !== null || layer.postFeedForwardNorm !== null,
    );
    const { format } = weights;
    const sinks = this.#sinkTokens > 0;
    const buffers = allocateDecoderBuffers(device, spec, { limits, format, branchNorms, sinks });
    this.#buffers = buffers;
    this.#stage = new StepStage(device, limits, layout.groups.length);
    const rope = this.#allocateRope(servedTokens);
    const taps = this.#allocateTaps(options.taps ?? []);
    this.tapped = taps.inputs;
    const parts = { device, spec, layout, weights, buffers, streaming, rope, taps };
    this.#layers = new DecoderLayers(parts);
  }

  /** Most sequences of a step that samples from all of its rows. */
  get samplingMax(): number {
    const { stepTokensMax, sequencesMax, logitRowsMax } = this.#limits;
    const rowsMax = Math.min(stepTokensMax, sequencesMax);
    const readsNone = this.#cachesOnly || this.#givesHidden;
    return readsNone ? rowsMax : Math.min(rowsMax, logitRowsMax);
  }

  /**
   * Makes `step` the next one to run. Its arrays may be reused when this returns. `sampled` [R] i32
   * holds the tokens that `tokenSources` of this and of later steps refer to; it is read when they
   * run, and should always be the same.
   */
  stage(step: StepInput, sampled?: DeviceTensor): void {
    const { stepTokensMax, sequencesMax } = this.#limits;
    const { tokens, sequences, tokenSources } = step;
    assert(
      tokens > 0 && tokens <= stepTokensMax && sequences > 0 && sequences <= sequencesMax,
      `Cannot stage ${tokens} tokens of ${sequences} sequences: at most ` +
        `${stepTokensMax} of ${sequencesMax} fit`,
    );
    if (sampled !== undefined && sampled !== this.#sampled) {
      this.#sampled = sampled;
      this.#changes++;
    }
    assert(
      tokenSources === undefined || this.#sampled !== null,
      "Cannot stage a step that takes sampled tokens: it is not known where they are",
    );
    this.#tokens = tokens;
    const samplesAll = step.samplesAll === true && sequences <= this.samplingMax;
    this.#samplingCount = samplesAll ? sequences : 0;
    this.#staged = samplesAll ? this.#stageSampling(step) : this.#stagePlain(step);
  }

  /**
   * [T, E] f32: where the staged step begins, of a decoder that is a part without the beginning. To
   * be filled before `forward`, with what `output` of the part before has.
   */
  hiddenInput(): DeviceTensor {
    assert(this.spec.part?.begins === false, "Cannot begin with hidden states: tokens are wanted");
    return this.#device.rows(this.#buffers.x, 0, this.#tokens);
  }

  /**
   * [T, E] f32: the hidden states of all rows of the step that ran last, for the part that follows
   * this one. Valid until the next `forward`.
   */
  output(): DeviceTensor {
    assert(this.#givesHidden, "Cannot give hidden states to a next part: this is the last one");
    return this.#device.rows(this.#buffers.x, 0, this.#tokens);
  }

  /** Enqueues all layers for the staged step; keys and values go to `cache`. */
  forward(cache: KvPool): void {
    const staged = this.#staged;
    assert(staged !== null, "Cannot run a step: none is staged");
    if (cache !== this.#cache) {
      this.#cache = cache;
      this.#changes++;
    }
    if (this.#samplingCount === 0) {
      this.#runPlain(staged, cache);
      return;
    }
    const { tokens, rowsApart } = staged;
    const contextLengthMax = this.paddedContext(staged.contextLengthMax, tokens, cache, rowsApart);
    const padded = withContext(staged, contextLengthMax);
    const isTree = staged.groups.some(({ batch }) => batch.treeMask !== undefined);
    const kind = isTree ? " apart tree" : rowsApart ? " apart" : "";
    const key = `${this.#name} ${this.#changes} ${tokens} ${contextLengthMax}${kind}`;
    this.#device.replay(key, () => {
      this.#layers.run(padded, cache, this.#sampled);
      if (!this.#cachesOnly && !this.#givesHidden) this.#runHead(tokens);
    });
  }

  /** Steps of drafts are replayed where a device can: their rows are few, and often as many. */
  #runPlain(staged: StagedStep, cache: KvPool): void {
    const run = () => this.#layers.run(staged, cache, this.#sampled);
    const { tokens, sequences, takes, wantedRows, groups } = staged;
    if (!this.#device.replaysByShape || tokens > REPLAYED_ROWS_MAX) {
      run();
      return;
    }
    const { treeMask, treeStarts } = groups[0]?.batch ?? {};
    const kind = `${takes} ${treeMask !== undefined} ${treeStarts !== undefined}`;
    const shape = `${tokens} ${sequences} ${wantedRows?.count ?? "all"}`;
    this.#device.replay(`${this.#name} ${this.#changes} any ${shape} ${kind}`, run);
  }

  /** Most tokens of a sequence that block tables can hold. */
  contextTokensMax(cache: KvPool): number {
    return this.#limits.blocksPerSequenceMax * cache.blockTokens;
  }

  /**
   * Padded context of sampling steps of `sequences`, padding included; `rowsApart`: of steps whose
   * sequences are rows of drafts.
   */
  paddedContext(
    contextTokens: number,
    sequences: number,
    cache: KvPool,
    rowsApart: boolean = false,
  ): number {
    const contextTokensMax = this.contextTokensMax(cache);
    const { format } = this.#weights;
    return this.#device.paddedContext({
      sequences,
      contextTokens,
      contextTokensMax,
      cache,
      format,
      rowsApart,
    });
  }

  /**
   * [S, V] f32: logits of the staged step's rows, in order, where it samples from all of them and
   * `forward` made them; else null. Valid until the next `forward` or `logits`.
   */
  samplingLogits(): DeviceTensor | null {
    if (this.#samplingCount === 0 || this.#cachesOnly || this.#givesHidden) return null;
    return this.#device.rows(this.#buffers.logits, 0, this.#samplingCount);
  }

  /**
   * [R, E] f32: the staged step's rows `rowIndices`, which must be wanted, after the final norm.
   * Valid until the next call of `hidden`.
   */
  hidden(rowIndices: Int32Array): DeviceTensor {
    const { hidden } = this.#buffers;
    this.#gatherNormed(rowIndices, hidden);
    return this.#device.rows(hidden, 0, rowIndices.length);
  }

  /**
   * [count, E] f32: the same of rows whose numbers the device has, as `keptRow` gives them: [count
   * and more] i32. Valid until the next call of either.
   */
  hiddenAt(rows: DeviceTensor, count: number): DeviceTensor {
    const { x, kept, hidden, gathered } = this.#buffers;
    this.#checkRows(count);
    const from = this.#wanted === null ? x : kept.x;
    this.#device.gatherRows({ count, out: gathered, x: from, indices: rows });
    this.#device.norm({ count, out: hidden, x: gathered, ...this.#finalNorm });
    return this.#device.rows(hidden, 0, count);
  }

  /** Where a wanted row of the staged step is among those that are kept of it. */
  keptRow(row: number): number {
    const wanted = this.#wanted;
    return wanted === null ? row : intAt(placesOf(Int32Array.of(row), wanted), 0);
  }

  /** [T] i32: the staged step's tokens, once it runs those that the device alone has, too. */
  get tokenIds(): DeviceTensor {
    assert(this.#staged !== null, "Cannot read a step's tokens: none is staged");
    return this.#staged.tokenIds;
  }

  /**
   * [R, V] f32: logits of the rows `rowIndices`, which must be wanted. Valid until the next
   * `logits` or `forward`.
   */
  logits(rowIndices: Int32Array): DeviceTensor {
    const { headInput, logits } = this.#buffers;
    const count = rowIndices.length;
    this.#gatherNormed(rowIndices, headInput);
    this.#headLogits(count);
    return this.#device.rows(logits, 0, count);
  }

  get #finalNorm(): NormWeights {
    const { finalNorm } = this.#weights;
    assert(finalNorm !== null, "Cannot read rows: the output layer is in another part");
    return finalNorm;
  }

  get #sinkTokens(): number {
    return this.#streaming?.sinkTokens ?? 0;
  }

  #allocateRope(servedTokens: number): DeviceTensor | null {
    const { positions, contextTokensMax: modelTokens } = this.spec;
    if (positions.kind !== "rope") return null;
    const wanted = this.#limits.contextTokensMax ?? modelTokens;
    const rows = this.#sinkTokens > 0 ? wanted : Math.min(wanted, modelTokens);
    const table = this.#device.allocate("f32", [rows, positions.rotaryDim]);
    const options = { positions: rows, modelTokens, servedTokens };
    this.#device.write(table, ropeTable(positions, options));
    return table;
  }

  #allocateTaps(layers: readonly number[]): LayerTaps {
    if (layers.length === 0) return { layers, inputs: [], rows: null };
    const device = this.#device;
    const { stepTokensMax } = this.#limits;
    const shape = [stepTokensMax, this.spec.hiddenSize];
    const rows = device.allocate("i32", [stepTokensMax]);
    device.write(
      rows,
      new Int32Array(stepTokensMax).map((_, row) => row),
    );
    return { layers, inputs: layers.map(() => device.allocate("f32", shape)), rows };
  }

  #stagePlain(step: StepInput): StagedStep {
    const { tokens, sequences, tokenSources, wantedRows } = step;
    const takes = tokenSources !== undefined;
    if (this.#cachesOnly || this.#givesHidden) {
      const all = this.#cachesOnly ? NO_ROWS : null;
      return this.#stage.stage(step, { tokens, sequences, takes, wantedRows: all });
    }
    const { logitRowsMax } = this.#limits;
    const few = wantedRows !== undefined && wantedRows.length <= logitRowsMax;
    for (const row of wantedRows ?? []) {
      assert(row >= 0 && row < tokens, `Cannot request row ${row} of a step of ${tokens} tokens`);
    }
    this.#wanted = few && wantedRows.length < tokens ? wantedRows.slice() : null;
    return this.#stage.stage(step, { tokens, sequences, takes, wantedRows: this.#wanted });
  }

  /** Padded to a replayed size; with `sampled`, all of these steps can take ids from it. */
  #stageSampling(step: StepInput): StagedStep {
    const { tokens, sequences, queryLengthMax, treeMask, treeStarts } = step;
    assert(
      tokens === sequences &&
        queryLengthMax === 1 &&
        (treeMask === undefined) === (treeStarts === undefined),
      `Cannot sample from all rows: ${tokens} tokens of ${sequences} sequences, one each wanted`,
    );
    const padded = this.#device.paddedBatch(sequences, this.samplingMax);
    const takes = this.#sampled !== null;
    this.#wanted = null;
    const wantedRows = this.#cachesOnly ? NO_ROWS : null;
    return this.#stage.stage(step, { tokens: padded, sequences: padded, takes, wantedRows });
  }

  /** Logits of the first `count` rows of `x`. */
  #runHead(count: number): void {
    const { x, headInput } = this.#buffers;
    this.#device.norm({ count, out: headInput, x, ...this.#finalNorm });
    this.#headLogits(count);
  }

  /** Logits of the first `count` rows of `headInput`. */
  #headLogits(count: number): void {
    const { headInput, logits } = this.#buffers;
    const { head } = this.#weights;
    assert(head !== null, "Cannot compute logits: the output layer is in another part");
    this.#device.linear({ count, out: logits, x: headInput, ...head });
    const cap = this.spec.finalSoftcap;
    if (cap !== null) this.#device.softcap({ count, x: logits, cap });
  }

  #checkRows(count: number): void {
    assert(
      count > 0 && count <= this.#limits.logitRowsMax,
      `Cannot read ${count} rows: at most ${this.#limits.logitRowsMax} fit`,
    );
  }

  /** The final norm of the step's rows `rowIndices`. */
  #gatherNormed(rowIndices: Int32Array, out: Activation | DeviceTensor): void {
    const { x, kept, rowIndices: indices, gathered } = this.#buffers;
    const count = rowIndices.length;
    this.#checkRows(count);
    const finalNorm = this.#finalNorm;
    const wanted = this.#wanted;
    // The rows of a step of drafts are often all that it has, in order.
    if (wanted === null ? isCount(rowIndices) : areEqual(wanted, rowIndices)) {
      this.#device.norm({ count, out, x: wanted === null ? x : kept.x, ...finalNorm });
      return;
    }
    this.#device.write(indices, wanted === null ? rowIndices : placesOf(rowIndices, wanted));
    this.#device.gatherRows({ count, out: gathered, x: wanted === null ? x : kept.x, indices });
    this.#device.norm({ count, out, x: gathered, ...finalNorm });
  }
}
