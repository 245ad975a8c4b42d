/** Runs a decoder over several sequences, a chunk of tokens at a time, as an engine does. */
import type { Device, DeviceTensor, KvFormat, KvPool, WeightFormat } from "#devices";
import {
  Decoder,
  type DecoderModel,
  type KvLayout,
  kvLayout,
  type LayerRange,
  loadDecoderWeights,
  partLayout,
  partOf,
  plainLayout,
  type StepInput,
  type Streaming,
  type WeightSupply,
} from "#models";

export interface DriverOptions {
  readonly device: Device;
  readonly model: DecoderModel;
  readonly sources: WeightSupply;
  readonly format?: WeightFormat;
  readonly kvFormat?: KvFormat;
  readonly blockTokens?: number;
  readonly sequences?: number;
  readonly contextTokens?: number;
  /** Most tokens of a sequence under a tree mask. */
  readonly treeTokens?: number;
  readonly streaming?: Streaming;
  /**
   * Layers of equal windows have blocks of their own, and tables name blocks of another sequence
   * where no query looks any more. Default: all layers in one group.
   */
  readonly grouped?: boolean;
  /** A part of the model that is run. Default: all of it. */
  readonly range?: LayerRange;
}

/** New tokens of one sequence. */
export interface Chunk {
  readonly sequence: number;
  readonly tokens: readonly number[];
  /** Position of each token; by default the places after what was computed. */
  readonly positions?: readonly number[];
}

/** What else there is to say of a step, and where its token sources look. */
export interface StepMore
  extends Pick<
    StepInput,
    "treeMask" | "treeStarts" | "tokenSources" | "samplesAll" | "wantedRows"
  > {
  readonly sampled?: DeviceTensor;
  /** What a part takes from the part before. */
  readonly hidden?: Float32Array;
}

export class DecoderDriver {
  readonly decoder: Decoder;
  readonly cache: KvPool;
  readonly #device: Device;
  readonly #blocksPerSequence: number;
  readonly #sequences: number;
  readonly #layout: KvLayout;
  /** Tokens in the cache, by sequence. */
  readonly #computed: number[];

  constructor(options: DriverOptions) {
    const { device, model: whole, sources, blockTokens = 4, contextTokens = 128 } = options;
    const { range = { first: 0, end: whole.spec.layers.length } } = options;
    const model = options.range === undefined ? whole : partOf(whole, range);
    const { spec } = model;
    this.#device = device;
    this.#sequences = options.sequences ?? 4;
    this.#blocksPerSequence = Math.ceil(contextTokens / blockTokens);
    this.#computed = Array.from({ length: this.#sequences }, () => 0);
    const weights = loadDecoderWeights(device, model, { sources, format: options.format ?? "f32" });
    const tokens = this.#sequences * contextTokens;
    const streaming = options.streaming ?? null;
    const grouped = options.grouped === true;
    const layout = grouped ? kvLayout(whole.spec, { streaming }) : plainLayout(whole.spec);
    this.#layout = partLayout(layout, range);
    this.decoder = new Decoder({
      device,
      spec,
      weights,
      limits: {
        stepTokensMax: tokens,
        sequencesMax: this.#sequences,
        logitRowsMax: tokens,
        blocksPerSequenceMax: this.#blocksPerSequence,
        contextTokensMax: contextTokens,
        treeTokensMax: options.treeTokens ?? 0,
      },
      streaming,
      layout: this.#layout,
    });
    this.cache = device.allocateKvPool({
      format: options.kvFormat ?? "f32",
      layers: this.#layout.layersPerBlock,
      blocks: this.#layout.groups.length * this.#sequences * this.#blocksPerSequence,
      blockTokens,
      kvHeads: spec.kvHeads,
      headDim: spec.headDim,
    });
  }

  /** Computes `chunks` in one step. Rows of the step are the chunks' tokens in order. */
  step(chunks: readonly Chunk[], { sampled, hidden, ...more }: StepMore = {}): void {
    const starts = [0];
    for (const { tokens } of chunks) starts.push((starts.at(-1) ?? 0) + tokens.length);
    const contexts = chunks.map((chunk) => this.#contextOf(chunk) + chunk.tokens.length);
    const places = chunks.map((chunk) => chunk.tokens.map((_, i) => this.#contextOf(chunk) + i));
    const step = {
      tokens: starts.at(-1) ?? 0,
      sequences: chunks.length,
      tokenIds: Int32Array.from(chunks.flatMap(({ tokens }) => tokens)),
      positions: Int32Array.from(
        chunks.flatMap(({ positions }, i) => positions ?? places[i] ?? []),
      ),
      queryStarts: Int32Array.from(starts),
      contextLengths: Int32Array.from(contexts),
      tables: this.#layout.groups.map((_, group) => ({
        slots: Int32Array.from(
          chunks.flatMap(({ sequence }, i) =>
            (places[i] ?? []).map((place) => this.#slot({ sequence, group }, place)),
          ),
        ),
        blockTables: Int32Array.from(
          chunks.flatMap(({ sequence }, i) =>
            this.#shownTable({ sequence, group }, places[i]?.[0] ?? 0),
          ),
        ),
      })),
      queryLengthMax: Math.max(...chunks.map(({ tokens }) => tokens.length)),
      contextLengthMax: Math.max(...contexts),
      ...more,
    };
    this.decoder.stage(step, sampled);
    if (hidden !== undefined) this.#device.write(this.decoder.hiddenInput(), hidden);
    this.decoder.forward(this.cache);
    chunks.forEach(({ sequence }, i) => {
      this.#computed[sequence] = contexts[i] ?? 0;
    });
  }

  /** Forgets the last tokens of a sequence, so that its cache holds `tokens`. */
  rewind(sequence: number, tokens: number): void {
    this.#computed[sequence] = tokens;
  }

  /** Logits of rows of the last step, [rows, V] flat. */
  logits(rows: readonly number[]): Promise<Float32Array> {
    return this.#device.readF32(this.decoder.logits(Int32Array.from(rows)));
  }

  /** Rows of the last step after the final norm, [rows, E] flat. */
  hidden(rows: readonly number[]): Promise<Float32Array> {
    return this.#device.readF32(this.decoder.hidden(Int32Array.from(rows)));
  }

  #contextOf({ sequence }: Chunk): number {
    return this.#computed[sequence] ?? 0;
  }

  /** Blocks of a sequence, the pool's last ones first: nothing lies where a mistake would look. */
  #table({ sequence, group }: TableOwner): number[] {
    const first = group * this.#sequences * this.#blocksPerSequence;
    return Array.from(
      { length: this.#blocksPerSequence },
      (_, i) => first + (this.#blocksPerSequence - i) * this.#sequences - 1 - sequence,
    );
  }

  /** The table as a step sees it whose first query is at `position`. */
  #shownTable(owner: TableOwner, position: number): number[] {
    const table = this.#table(owner);
    const window = this.#layout.groups[owner.group]?.window ?? null;
    if (window === null || this.#layout.groups.length === 1) return table;
    const unseen = Math.floor((position - window.tokens + 1) / this.cache.blockTokens);
    const sequence = (owner.sequence + 1) % this.#sequences;
    const others = this.#table({ ...owner, sequence });
    return table.map((block, index) => (index < unseen ? (others[index] ?? block) : block));
  }

  #slot(owner: TableOwner, place: number): number {
    const { blockTokens } = this.cache;
    const block = this.#table(owner)[Math.floor(place / blockTokens)] ?? -1;
    return block * blockTokens + (place % blockTokens);
  }
}

/** Whose block table: a sequence's, for one group of layers. */
interface TableOwner {
  readonly sequence: number;
  readonly group: number;
}

/** How prompts are fed. */
export interface Feeding {
  /** Most prompt tokens of a sequence in one step. */
  readonly chunkTokens: number;
  /** Steps between the starts of one sequence and the next; null: one after another. */
  readonly stagger: number | null;
}

/** Greedy continuations of all prompts; `banned` tokens are never taken. */
export async function generateGreedily(
  driver: DecoderDriver,
  prompts: readonly (readonly number[])[],
  options: Feeding & { readonly newTokens: number; readonly banned: readonly number[] },
): Promise<number[][]> {
  const pending = prompts.map((prompt) => [...prompt]);
  const made = prompts.map((): number[] => []);
  const isDone = (sequence: number) => (made[sequence]?.length ?? 0) >= options.newTokens;
  for (let step = 0; !prompts.every((_, sequence) => isDone(sequence)); step++) {
    const chunks = prompts.flatMap((_, sequence) => {
      const mayStart =
        options.stagger === null
          ? sequence === 0 || isDone(sequence - 1)
          : step >= sequence * options.stagger;
      if (!mayStart || isDone(sequence)) return [];
      return [{ sequence, tokens: pending[sequence]?.splice(0, options.chunkTokens) ?? [] }];
    });
    if (chunks.length === 0) continue;
    driver.step(chunks);
    let row = -1;
    for (const { sequence, tokens } of chunks) {
      row += tokens.length;
      if (pending[sequence]?.length !== 0) continue;
      const token = likeliest(await driver.logits([row]), options.banned);
      made[sequence]?.push(token);
      pending[sequence]?.push(token);
    }
  }
  return made;
}

function likeliest(logits: Float32Array, banned: readonly number[]): number {
  const open = logits.map((logit, token) =>
    banned.includes(token) ? Number.NEGATIVE_INFINITY : logit,
  );
  return open.indexOf(Math.max(...open));
}
