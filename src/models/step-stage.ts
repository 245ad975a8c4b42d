/**
 * Copies a step's input to the device in one copy. The parts are contiguous, each as long as
 * the step needs, so that a step of a few tokens copies a few bytes:
 *
 *   tokenIds [T] · tokenSources [T], or none · positions [T] · queryStarts [S + 1] ·
 *   contextLengths [S] · wantedRows [R], or none ·
 *   per group of layers: slots [T] · tableStarts [S + 1] ·
 *   per group of layers: tableValues
 *
 * All offsets but those of the values depend on T, S and R alone; the values of a group
 * begin where its starts say. So steps of one size can be replayed. Block tables are copied as
 * their used entries, row after row; the device expands them to [S, M].
 */
import { assert } from "#base";
import type { AttentionBatch, Device, DeviceTensor } from "#devices";
import type { DecoderLimits } from "./decoder-buffers.ts";
import type { StepInput } from "./step-input.ts";

/** Alignment of parts in elements: a cache line of the device. */
const alignment = 32;

/** Size of a step after padding: rows behind its own are padding. */
export interface StagedSize {
  /** T. */
  readonly tokens: number;
  /** S; each sequence that is padding has one token. */
  readonly sequences: number;
  /** Whether ids may be taken from the last sampled tokens. */
  readonly takes: boolean;
  /** Rows that the last layer computes; null: all. */
  readonly wantedRows: Int32Array | null;
}

/** The only rows of a step that the last layer computes. */
export interface WantedRows {
  readonly count: number;
  /** [count] i32. */
  readonly indices: DeviceTensor;
}

/** Where the keys and values of one group of layers are, on the device. */
export interface StagedGroup {
  /** [T] i32. */
  readonly slots: DeviceTensor;
  /** Rows of `batch.blockTables`, to be expanded before it is used. */
  readonly tableStarts: DeviceTensor;
  readonly batch: AttentionBatch;
}

/** A step on the device: views of the copied input. */
export interface StagedStep extends Omit<StagedSize, "wantedRows"> {
  readonly tokenIds: DeviceTensor;
  /** Null where no id is taken from the sampled tokens. */
  readonly tokenSources: DeviceTensor | null;
  readonly positions: DeviceTensor;
  /** By group of layers. */
  readonly groups: readonly StagedGroup[];
  /** Entries of all groups' block tables. */
  readonly tableValues: DeviceTensor;
  readonly wantedRows: WantedRows | null;
  /** Longest context. */
  readonly contextLengthMax: number;
  /** `StepInput.rowsApart`. */
  readonly rowsApart: boolean;
}

/** Slots and tables of one group in the staged input. */
interface GroupPlace extends Omit<StagedGroup, "batch"> {
  /** [S, M] i32. */
  readonly blockTables: DeviceTensor;
  /** Where its starts are, as an element of the staged input. */
  readonly at: number;
}

/** Those of all groups. */
interface StagedTables {
  readonly places: readonly GroupPlace[];
  readonly tableValues: DeviceTensor;
}

/** Where one group's tables are read and written, as elements of the staged input. */
interface TablesPlace {
  readonly blockTables: Int32Array;
  readonly starts: number;
  readonly values: number;
  readonly end: number;
}

/** The memory of staged steps. Nothing is allocated after the constructor. */
export class StepStage {
  readonly #device: Device;
  readonly #limits: DecoderLimits;
  readonly #packed: Int32Array;
  readonly #staged: DeviceTensor;
  /** By group: [S, M] i32. */
  readonly #blockTables: readonly DeviceTensor[];
  /** [T, W] u32, and [S] i32. */
  readonly #trees: { readonly mask: DeviceTensor; readonly starts: DeviceTensor } | null;
  /** Used elements of `#packed`. */
  #end = 0;

  /** `groups`: of layers, each with block tables of its own. Throws OUT_OF_MEMORY. */
  constructor(device: Device, limits: DecoderLimits, groups: number) {
    const { stepTokensMax, sequencesMax, logitRowsMax } = limits;
    const { blocksPerSequenceMax, treeTokensMax = 0 } = limits;
    this.#device = device;
    this.#limits = limits;
    const tables = sequencesMax * blocksPerSequenceMax;
    const rows = (3 + groups) * padded(stepTokensMax) + padded(logitRowsMax);
    const length = rows + (2 + groups) * padded(sequencesMax + 1) + padded(groups * tables);
    this.#packed = new Int32Array(length);
    this.#staged = device.allocate("i32", [length]);
    this.#blockTables = Array.from({ length: groups }, () =>
      device.allocate("i32", [sequencesMax, blocksPerSequenceMax]),
    );
    const words = Math.ceil(treeTokensMax / 32);
    this.#trees =
      words === 0
        ? null
        : {
            mask: device.allocate("u32", [stepTokensMax, words]),
            starts: device.allocate("i32", [sequencesMax]),
          };
  }

  /**
   * Enqueues the copies. `step` may be reused when this returns; the result is valid until the next
   * call.
   */
  stage(step: StepInput, size: StagedSize): StagedStep {
    const { tokens, sequences } = step;
    this.#end = 0;
    const tokenIds = this.#put(step.tokenIds, tokens, size.tokens, 0);
    const tokenSources = size.takes ? this.#putSources(step, size) : null;
    const positions = this.#put(step.positions, tokens, size.tokens, 0);
    const queryStarts = this.#putQueryStarts(step, size);
    const contextLengths = this.#put(step.contextLengths, sequences, size.sequences, 0);
    const wantedRows = this.#putWanted(size);
    const { places, tableValues } = this.#putGroups(step, size);
    this.#device.write(this.#staged, this.#packed.subarray(0, this.#end));
    const { queryLengthMax, contextLengthMax, rowsApart = false } = step;
    const trees = this.#stageTrees(step);
    const groups: StagedGroup[] = [];
    // Field by field: spread objects cost a small step more than the rest of this does.
    for (const { slots, tableStarts, blockTables } of places) {
      const batch = {
        sequences: size.sequences,
        queryStarts,
        contextLengths,
        blockTables,
        queryLengthMax,
        contextLengthMax,
        rowsApart,
        ...trees,
      };
      groups.push({ slots, tableStarts, batch });
    }
    return {
      tokens: size.tokens,
      sequences: size.sequences,
      takes: size.takes,
      tokenIds,
      tokenSources,
      positions,
      groups,
      tableValues,
      wantedRows,
      contextLengthMax,
      rowsApart,
    };
  }

  /** The first `count` values, then `filler` up to `length`. */
  #put(values: Int32Array, count: number, length: number, filler: number): DeviceTensor {
    const start = this.#end;
    this.#packed.set(values.subarray(0, count), start);
    this.#packed.fill(filler, start + count, start + length);
    return this.#take(length);
  }

  #putSources({ tokenSources, tokens }: StepInput, size: StagedSize): DeviceTensor {
    const none = tokenSources === undefined;
    return this.#put(tokenSources ?? this.#packed, none ? 0 : tokens, size.tokens, -1);
  }

  #putWanted({ wantedRows }: StagedSize): WantedRows | null {
    if (wantedRows === null) return null;
    const count = wantedRows.length;
    return { count, indices: this.#put(wantedRows, count, count, 0) };
  }

  /** Padding sequences have one token each. */
  #putQueryStarts({ queryStarts, tokens, sequences }: StepInput, size: StagedSize): DeviceTensor {
    const start = this.#end;
    this.#packed.set(queryStarts.subarray(0, sequences + 1), start);
    for (let more = 1; more <= size.sequences - sequences; more++) {
      this.#packed[start + sequences + more] = tokens + more;
    }
    return this.#take(size.sequences + 1);
  }

  /** Slots and tables of all groups. The values of all tables are one part, the last. */
  #putGroups(step: StepInput, size: StagedSize): StagedTables {
    const { tables, tokens } = step;
    assert(
      tables.length === this.#blockTables.length,
      `Cannot stage tables of ${tables.length} groups: ${this.#blockTables.length} wanted`,
    );
    const places: GroupPlace[] = [];
    for (const blockTables of this.#blockTables) {
      const given = tables[places.length]?.slots ?? this.#packed;
      const slots = this.#put(given, tokens, size.tokens, -1);
      const at = this.#end;
      places.push({ blockTables, slots, tableStarts: this.#take(size.sequences + 1), at });
    }
    const values = this.#end;
    let end = values;
    for (let group = 0; group < places.length; group++) {
      const blockTables = tables[group]?.blockTables ?? this.#packed;
      const starts = places[group]?.at ?? 0;
      end = this.#putTables(step, size, { blockTables, starts, values, end });
    }
    return { places, tableValues: this.#take(end - values) };
  }

  /**
   * The entries of each table that its context needs, from `end` on; none for padding. Returns
   * their end; `starts` receives where each table begins, counted from `values`.
   */
  #putTables(step: StepInput, size: StagedSize, at: TablesPlace): number {
    const { blocksPerSequenceMax, blockTokens = 1 } = this.#limits;
    const { sequences, contextLengths } = step;
    const { blockTables, starts, values } = at;
    const packed = this.#packed;
    let { end } = at;
    for (let s = 0; s < sequences; s++) {
      const used = Math.ceil((contextLengths[s] ?? 0) / blockTokens);
      const row = s * blocksPerSequenceMax;
      packed[starts + s] = end - values;
      end = copy(packed, end, blockTables, row, row + Math.min(used, blocksPerSequenceMax));
    }
    packed.fill(end - values, starts + sequences, starts + size.sequences + 1);
    return end;
  }

  /** A view of the next `length` elements. */
  #take(length: number): DeviceTensor {
    const start = this.#end;
    this.#end = start + padded(length);
    return this.#device.rows(this.#staged, start, start + length);
  }

  #stageTrees({ treeMask, treeStarts, tokens, sequences }: StepInput): TreeBatch {
    if (treeMask === undefined) return NO_TREES;
    const trees = this.#trees;
    assert(trees !== null, "Cannot stage a tree mask: the limits allow none");
    const { mask, starts } = trees;
    // Padding sees nothing, so what hides more of it may be anything.
    this.#device.write(mask, treeMask.subarray(0, tokens * (mask.shape[1] ?? 0)));
    if (treeStarts === undefined) return { treeMask: mask };
    this.#device.write(starts, treeStarts.subarray(0, sequences));
    return { treeMask: mask, treeStarts: starts };
  }
}

type TreeBatch = Pick<AttentionBatch, "treeMask" | "treeStarts">;

const NO_TREES: TreeBatch = {};

function padded(length: number): number {
  return Math.ceil(length / alignment) * alignment;
}

/**
 * Rows of this length and more are copied at once: for shorter ones a loop costs less than the
 * call.
 */
const longRow = 64;

/** Copies `from[start]` up to `from[stop]` to `into[at]`; returns the end of the copy. */
function copy(into: Int32Array, at: number, from: Int32Array, start: number, stop: number): number {
  if (stop - start >= longRow) into.set(from.subarray(start, stop), at);
  else for (let i = start; i < stop; i++) into[at + i - start] = from[i] ?? 0;
  return at + stop - start;
}

/** The step as one whose longest context is this. */
export function withContext(staged: StagedStep, contextLengthMax: number): StagedStep {
  if (staged.contextLengthMax === contextLengthMax) return staged;
  const groups = staged.groups.map((group) => ({
    ...group,
    batch: { ...group.batch, contextLengthMax },
  }));
  return { ...staged, groups, contextLengthMax };
}
