/** An EAGLE-3 with a text of one sequence in its blocks. */
import { openCheckpoint } from "#checkpoint";
import type { Device, DeviceTensor, KvPool } from "#devices";
import {
  type DecoderSpec,
  describeEagle3,
  EAGLE3_KV_LAYERS,
  Eagle3,
  loadEagle3Weights,
  type StepInput,
} from "#models";
import { PlainEagle3 } from "./plain-eagle3.ts";

/** Tokens of a block. */
const P = 4;
const limits = {
  ...{ sequencesMax: 3, widthMax: 3, lengthMax: 6, stepTokensMax: 32, stepSequencesMax: 4 },
  ...{ blocksPerSequenceMax: 8, treeTokensMax: 32, blockTokens: P, contextTokensMax: 32 },
  ...{ servedTokens: 32, streaming: null },
};

/** Tokens, and by hidden state of the base the values of all tokens. */
export interface GivenText {
  readonly tokens: Int32Array;
  readonly states: readonly Float32Array[];
}

export interface Eagle3BenchParts {
  /** Of the drafter's files. */
  readonly folder: string;
  readonly base: Pick<DecoderSpec, "hiddenSize" | "layers">;
  /** [V, B]: the base's embeddings. */
  readonly baseTokens: Float32Array;
}

/** The text is in blocks 0, 1, 2 and so on of a pool; scratch begins at block 8. */
export class Eagle3Bench {
  readonly plain: PlainEagle3;
  readonly taps: number;
  readonly #device: Device;
  readonly #network: Eagle3;
  readonly #width: number;
  readonly #tapped: readonly DeviceTensor[];
  readonly #sampled: DeviceTensor;
  readonly #cache: KvPool;

  constructor(device: Device, { folder, base, baseTokens }: Eagle3BenchParts) {
    const { config, path, tensors, integers } = openCheckpoint(folder);
    const spec = describeEagle3(config, base);
    const width = base.hiddenSize;
    const source = {
      ...{ name: "base", dtype: "f32" as const, shape: [baseTokens.length / width, width] },
      ...{ bytes: () => new Uint8Array(baseTokens.slice().buffer), discard: () => {} },
    };
    const files = { path, tensors, integers, has: (name: string) => tensors.has(name) };
    const weights = loadEagle3Weights(device, spec, {
      ...{ files, format: "f32", baseTokens: device.pack([source], { format: "f32" }) },
    });
    this.taps = spec.taps.length;
    this.#width = width;
    this.#tapped = spec.taps.map(() => device.allocate("f32", [limits.stepTokensMax, width]));
    this.#device = device;
    this.#network = new Eagle3({ device, spec, weights, limits, tapped: this.#tapped });
    this.plain = new PlainEagle3(spec, { tensors, integers, baseTokens });
    this.#sampled = device.allocate("i32", [4]);
    const { kvHeads, headDim } = spec;
    this.#cache = device.allocateKvPool({
      ...{ format: "f32", layers: EAGLE3_KV_LAYERS, blockTokens: P, kvHeads, headDim },
      blocks: 8 + 8,
    });
  }

  /** Fills positions `start` up to `end` of a text. */
  fill({ tokens, states }: GivenText, start: number, end: number): void {
    const width = this.#width;
    states.forEach((values, tap) => {
      this.writeStates(tap, values.slice(start * width, end * width));
    });
    const positions = Int32Array.from({ length: end - start }, (_, row) => start + row);
    this.fillRows({ tokenIds: tokens.slice(start, end), positions });
  }

  /** Hidden states of the rows of the next `fillRows`. */
  writeStates(tap: number, values: Float32Array): void {
    const tensor = this.#tapped[tap];
    if (tensor !== undefined) this.#device.write(tensor, values);
  }

  /** Fills rows of one step; `apart`: each is a sequence of its own. */
  fillRows(step: Pick<StepInput, "tokenIds" | "positions" | "treeMask">, apart = false): void {
    const count = step.tokenIds.length;
    const start = step.positions[0] ?? 0;
    if (apart) {
      const rows = Int32Array.from({ length: count }, (_, row) => row);
      const input: StepInput = {
        ...{ tokens: count, sequences: count, ...step, rowsApart: true, samplesAll: true },
        queryStarts: Int32Array.from({ length: count + 1 }, (_, row) => row),
        contextLengths: rows.map((row) => start + row + 1),
        treeStarts: rows.map(() => start),
        tables: [
          {
            slots: rows.map((row) => start + row),
            blockTables: Int32Array.from({ length: 8 * count }, (_, at) => at % 8),
          },
        ],
        ...{ queryLengthMax: 1, contextLengthMax: start + count },
      };
      this.#network.fill(input, this.#cache, this.#sampled);
      return;
    }
    const input: StepInput = {
      ...{ tokens: count, sequences: 1, ...step, queryStarts: Int32Array.of(0, count) },
      contextLengths: Int32Array.of(start + count),
      tables: [
        {
          slots: step.positions.map((_, row) => start + row),
          blockTables: Int32Array.from({ length: 8 }, (_, block) => block),
        },
      ],
      ...{ queryLengthMax: count, contextLengthMax: start + count },
    };
    this.#network.fill(input, this.#cache, this.#sampled);
  }

  /**
   * The same positions as `fill`, each a sequence of its own with the text's blocks: a kind of step
   * that the device may replay. Four at most. The last `sampledCount` tokens are read on the device.
   */
  fillApart({ tokens, states }: GivenText, start: number, end: number, sampledCount = 0): void {
    const width = this.#width;
    states.forEach((values, tap) => {
      this.writeStates(tap, values.slice(start * width, end * width));
    });
    const count = end - start;
    const sampled = tokens.slice(end - sampledCount, end);
    this.#device.write(
      this.#sampled,
      Int32Array.from({ length: 4 }, (_, i) => sampled[i] ?? 0),
    );
    const rows = Int32Array.from({ length: count }, (_, row) => row);
    const given = count - sampledCount;
    const blockTables = new Int32Array(8 * count);
    for (const row of rows)
      for (let block = 0; block < 8; block++) blockTables[row * 8 + block] = block;
    const positions = rows.map((row) => start + row);
    this.#network.fill(
      {
        ...{ tokens: count, sequences: count, positions },
        tokenIds: rows.map((row) => (row < given ? (tokens[start + row] ?? 0) : 0)),
        ...(sampledCount > 0 && {
          tokenSources: rows.map((row) => (row < given ? -1 : row - given)),
        }),
        queryStarts: Int32Array.from({ length: count + 1 }, (_, row) => row),
        contextLengths: positions.map((position) => position + 1),
        tables: [{ slots: positions, blockTables }],
        ...{ queryLengthMax: 1, contextLengthMax: end, samplesAll: true },
      },
      this.#cache,
      this.#sampled,
    );
  }

  /** Moves what a slot holds. */
  move(from: number, to: number): void {
    const device = this.#device;
    const moves = device.allocate("i32", [1, 2]);
    const starts = device.allocate("i32", [2]);
    device.write(moves, Int32Array.of(from, to));
    device.write(starts, Int32Array.of(0, 1));
    device.moveTokens({ count: 1, cache: this.#cache, groups: 1, starts, moves });
  }

  /** Drafts behind the first `position` tokens, the last of which was row `row` of the step. */
  async draft(
    root: number,
    position: number,
    row: number,
    { length = 5, rank = 0 } = {},
  ): Promise<number[]> {
    // Own blocks where they are full, copies of the first and of the partly filled one.
    const full = Math.floor(position / P);
    const table = Int32Array.from({ length: full + 3 }, (_, at) =>
      at < full ? at : 8 + at - full,
    );
    const copies = position % P > 0 ? [full, 8] : [];
    if (full > 0) {
      table[0] = 15;
      copies.push(0, 15);
    }
    this.#device.copyBlocks(this.#cache, Int32Array.from(copies));
    const context = { row, root, position, length, rank, draw: null, table };
    const [chain] = await this.#network.chains([context], this.#cache).take();
    return [...(chain ?? [])];
  }
}
