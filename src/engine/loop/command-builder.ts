import { assert, intAt } from "#base";
import type { BlockTable, CacheMoves } from "#kvcache";
import type { SamplingBatch } from "#sampling";
import { hideBranches, isChain, type TokenTree } from "#speculative";
import type {
  GroupTables,
  PromptRows,
  RowSearch,
  StepCommand,
  TokenMoves,
} from "./step-command.ts";
import {
  isSampling,
  isSearching,
  rowCount,
  type StepItem,
  sampledRows,
  wantsPromptRows,
} from "./step-item.ts";

export interface CommandLimits {
  readonly stepTokensMax: number;
  readonly sequencesMax: number;
  readonly blocksPerSequenceMax: number;
  readonly blockTokens: number;
  /** Groups of layers, each with a block table per sequence. */
  readonly groups: number;
  /** Most tokens of one sequence under a tree mask; 0: drafts are chains. */
  readonly treeTokensMax: number;
  /**
   * A step of decoding sequences and drafts alone may give each row to a sequence of its own, as
   * long as its rows then read no more tokens of the cache again than this: such steps are replayed
   * as CUDA graphs. Default: 0, rows of a sequence stay together.
   */
  readonly rereadTokensMax?: number;
}

/** What a command says beside the tokens. */
export interface CommandParts {
  readonly moves: CacheMoves;
  /** Moves of tokens that an earlier step accepted. Default: none. */
  readonly tokenMoves?: TokenMoves | null;
  /** How the rows of sampling items are sampled; null: there are none. */
  readonly sampling: SamplingBatch | null;
}

/** Writes plans into flat arrays, which are reused. */
export class CommandBuilder {
  readonly #limits: CommandLimits;
  readonly #tokenIds: Int32Array;
  readonly #tokenSources: Int32Array;
  readonly #positions: Int32Array;
  readonly #tables: readonly GroupTables[];
  readonly #queryStarts: Int32Array;
  readonly #contextLengths: Int32Array;
  /** [T, W]. */
  readonly #treeMask: Uint32Array;
  readonly #treeWords: number;
  readonly #treeStarts: Int32Array;

  constructor(limits: CommandLimits) {
    const { stepTokensMax, sequencesMax, blocksPerSequenceMax } = limits;
    this.#limits = limits;
    this.#tokenIds = new Int32Array(stepTokensMax);
    this.#tokenSources = new Int32Array(stepTokensMax);
    this.#positions = new Int32Array(stepTokensMax);
    this.#queryStarts = new Int32Array(sequencesMax + 1);
    this.#contextLengths = new Int32Array(sequencesMax);
    this.#treeStarts = new Int32Array(sequencesMax);
    this.#treeWords = Math.ceil(limits.treeTokensMax / 32);
    this.#treeMask = new Uint32Array(stepTokensMax * this.#treeWords);
    this.#tables = Array.from({ length: limits.groups }, () => ({
      slots: new Int32Array(stepTokensMax),
      blockTables: new Int32Array(sequencesMax * blocksPerSequenceMax),
    }));
  }

  /** The items as a command. Valid until the next call. */
  build(items: readonly StepItem[], parts: CommandParts): StepCommand {
    const { moves, tokenMoves = null, sampling } = parts;
    const apart = this.#standApart(items);
    let tokens = 0;
    let queryLengthMax = 0;
    let contextLengthMax = 0;
    let row = 0;
    let awaits = false;
    const branches = items.some(isBranching);
    for (const item of items) {
      const { sequence, start, drafted } = item.planned;
      // A fork computes nothing: it samples from another item's row.
      if (item.planned.count === 0) continue;
      const count = item.planned.count + drafted;
      awaits = this.#fillTokens(item, tokens) || awaits;
      for (let place = 0; place < count; place++) this.#positions[tokens + place] = start + place;
      if (branches) this.#fillTree(item, tokens);
      // The rows of a sequence; or each one, whose context is that of the ones before it, too.
      const query = apart ? 1 : count;
      for (let place = 0; place < count; place += query) {
        const at = { row, start: start + place, count: query, first: tokens + place };
        this.#queryStarts[row] = at.first;
        this.#contextLengths[row] = at.start + query;
        this.#treeStarts[row] = start;
        for (const [group, tables] of this.#tables.entries()) {
          this.#fillTable(tables, sequence.blockTable.parts[group] ?? sequence.blockTable, at);
        }
        row++;
      }
      tokens += count;
      queryLengthMax = Math.max(queryLengthMax, query);
      contextLengthMax = Math.max(contextLengthMax, start + count);
    }
    this.#queryStarts[row] = tokens;
    const { prompts, logitRows, searches } = apart ? ALL_SAMPLED : rowsOf(items);
    // Field by field: spread objects cost a small step more than all of its rows do.
    return {
      moves: moves.moves,
      jobs: moves.jobs,
      peerJobs: moves.peerJobs,
      tokenMoves,
      tokens,
      sequences: row,
      tokenIds: this.#tokenIds,
      tokenSources: awaits ? this.#tokenSources : null,
      positions: this.#positions,
      treeMask: branches ? this.#treeMask : null,
      rowsApart: apart,
      treeStarts: branches && apart ? this.#treeStarts : null,
      queryStarts: this.#queryStarts,
      contextLengths: this.#contextLengths,
      tables: this.#tables,
      queryLengthMax,
      contextLengthMax,
      prompts,
      logitRows,
      sampling,
      searches,
    };
  }

  /** Whether each row is given to a sequence of its own: a step with drafts is a replay then. */
  #standApart(items: readonly StepItem[]): boolean {
    const { rereadTokensMax = 0, sequencesMax } = this.#limits;
    if (rereadTokensMax === 0 || !items.some(({ planned }) => planned.drafted > 0)) return false;
    let [rows, reread] = [0, 0];
    for (const item of items) {
      const { start, drafted } = item.planned;
      if (!samplesAllRows(item)) return false;
      rows += 1 + drafted;
      reread += drafted * start;
    }
    return rows <= sequencesMax && reread <= rereadTokensMax;
  }

  /** Writes the item's ids from row `first` on. Whether the device takes any of what it has. */
  #fillTokens({ planned, task }: StepItem, first: number): boolean {
    const { sequence, start, count, drafted } = planned;
    const { tokens } = sequence;
    const end = start + count;
    const isLate = drafted > 0 && this.#fillDraft(task.draft, first + count, drafted);
    const known = Math.min(end, tokens.length);
    if (count === 1 && known === end) this.#tokenIds[first] = tokens.get(start);
    else if (known > start) this.#tokenIds.set(tokens.view(start, known), first);
    this.#tokenSources.fill(-1, first, first + count);
    if (known === end) return isLate;
    assert(known === end - 1 && task.sampledRow >= 0, "Cannot compute a token that no row samples");
    this.#tokenIds[first + count - 1] = 0;
    this.#tokenSources[first + count - 1] = task.sampledRow;
    return true;
  }

  /** Writes the first drafted tokens. Whether they are not known yet. */
  #fillDraft(draft: TokenTree | null, first: number, drafted: number): boolean {
    assert(draft !== null, "Cannot verify a draft that is not there");
    const { tokens, late } = draft;
    const sources = late !== undefined && !late.known ? late.sources : null;
    for (let place = 0; place < drafted; place++) {
      this.#tokenIds[first + place] = intAt(tokens, 1 + place);
      this.#tokenSources[first + place] = sources === null ? -1 : intAt(sources, place);
    }
    return sources !== null;
  }

  /** Writes the item's rows of the mask, and the positions of its nodes, from row `first` on. */
  #fillTree(item: StepItem, first: number): void {
    const { planned, task } = item;
    const { start, count, drafted } = planned;
    const words = this.#treeWords;
    this.#treeMask.fill(0, first * words, (first + count + drafted) * words);
    if (!isBranching(item) || task.draft === null) return;
    const { draft } = task;
    const { treeTokensMax } = this.#limits;
    // The scheduler drafts behind one token only (SC31): it is the root.
    assert(
      count === 1 && 1 + drafted <= treeTokensMax,
      `Cannot mask a tree of ${drafted} nodes behind ${count} tokens`,
    );
    hideBranches(draft, 1 + drafted, this.#treeMask, { firstRow: first, words });
    for (let node = 1; node <= drafted; node++) {
      this.#positions[first + node] = start + (draft.depths[node] ?? 0);
    }
  }

  /** Writes an item's blocks, and the slot of each of its tokens. */
  #fillTable({ slots, blockTables }: GroupTables, table: BlockTable, at: ItemPlace): void {
    const { blockTokens, blocksPerSequenceMax } = this.#limits;
    const blocks = table.view();
    blockTables.set(blocks, at.row * blocksPerSequenceMax);
    for (let place = 0; place < at.count; place++) {
      const position = at.start + place;
      const block = blocks[Math.floor(position / blockTokens)] ?? 0;
      slots[at.first + place] = block * blockTokens + (position % blockTokens);
    }
  }
}

/** Whether the item's drafted tokens are more than one continuation. */
function isBranching({ planned: { drafted }, task: { draft } }: StepItem): boolean {
  return drafted > 1 && draft !== null && !isChain(draft, 1 + drafted);
}

/** Where an item's tokens are in a step. */
interface ItemPlace {
  /** Its sequence among those of the step. */
  readonly row: number;
  /** Its positions: from `start` on. */
  readonly start: number;
  readonly count: number;
  /** Its first token among those of the step. */
  readonly first: number;
}

/** The rows whose results are read. */
type ReadRows = Pick<StepCommand, "prompts" | "logitRows" | "searches">;

/** Every row belongs to one item that samples from it and needs nothing else. */
const ALL_SAMPLED: ReadRows = { prompts: [], logitRows: null, searches: [] };

function rowsOf(items: readonly StepItem[]): ReadRows {
  if (items.length > 0 && items.every(isUniform)) return ALL_SAMPLED;
  const sampled = items.filter(isSampling);
  const searched = items.filter(isSearching);
  return {
    prompts: items.filter(wantsPromptRows).map(promptRows),
    logitRows: Int32Array.from([...sampled.flatMap(sampledRows), ...searched.map(lastRow)]),
    searches: searchesOf(searched, rowCount(sampled)),
  };
}

/** A step of such items alone has one row for each, and a device may run it as a CUDA graph. */
function isUniform(item: StepItem): boolean {
  return item.planned.drafted === 0 && samplesAllRows(item);
}

/** Whether its rows are that of its newest token and those of its draft, each of them sampled. */
function samplesAllRows(item: StepItem): boolean {
  const { count, forkOf } = item.planned;
  return count === 1 && forkOf === null && isSampling(item) && !wantsPromptRows(item);
}

function promptRows({ planned, task, firstRow }: StepItem): PromptRows {
  const { sequence, start, count } = planned;
  const { promptLogprobs, promptLogits, hiddenPool } = task;
  const hiddenCount = hiddenPool === null ? 0 : count;
  const rows = Math.max(0, Math.min(start + count, sequence.promptLength) - start);
  const logitCount = promptLogprobs === null && promptLogits === null ? 0 : rows;
  // A token's row scores the next token, so the prompt's last row scores no prompt token.
  const scored = Math.min(rows, sequence.promptLength - 1 - start);
  const wantsScores = promptLogprobs !== null && scored > 0;
  const scores = wantsScores
    ? {
        wanted: promptLogprobs.wanted,
        tokens: sequence.tokens.view(start + 1, start + 1 + scored),
      }
    : null;
  return { firstRow, hiddenCount, logitCount, logits: promptLogits !== null, scores };
}

function lastRow({ lastRow: row }: StepItem): number {
  return row;
}

/** Rows with the same number of candidates are searched together; the first is row `first`. */
function searchesOf(items: readonly StepItem[], first: number): readonly RowSearch[] {
  const counts = new Set(items.map(({ task }) => task.beamCandidates));
  return Array.from(counts, (candidates) => ({
    candidates,
    rows: items.flatMap(({ task }, at) => (task.beamCandidates === candidates ? [first + at] : [])),
  }));
}
