import { assert } from "#base";
import { requestFailure } from "#engine/protocol";
import type { CacheMoves } from "#kvcache";
import {
  type BatchWriter,
  candidatesOfRow,
  type PositionLogprobs,
  type RowFailures,
  type SampledBatch,
  type SamplingRow,
  type TokenCandidates,
} from "#sampling";
import {
  confirmedPath,
  type Drafter,
  type DraftSeed,
  type LateTrees,
  pathTo,
  type TokenTree,
} from "#speculative";
import { AcceptedTokens } from "./accepted-tokens.ts";
import { chosenTrees, startAhead } from "./ahead-drafts.ts";
import type { CommandBuilder } from "./command-builder.ts";
import { seedOf, type WantedDraft, wantedDrafts } from "./draft-seeds.ts";
import { LateDrafts } from "./late-drafts.ts";
import type { ItemResult, ModelRunner, StartedStep, StepWork } from "./model-runner.ts";
import type { RowSearch, StepCommand } from "./step-command.ts";
import type { PromptPart, StartedCommand, StepExecutor } from "./step-executor.ts";
import {
  endsUnsampled,
  isSampling,
  isSearching,
  itemsOf,
  rowCount,
  type StepItem,
  wantsPromptRows,
} from "./step-item.ts";

export interface CommandRunnerParts {
  readonly executor: StepExecutor;
  readonly builder: CommandBuilder;
  readonly writer: BatchWriter;
  /** The drafter beside the model, of the executor's device. Default: null, none. */
  readonly drafter?: Drafter | null;
}

const NOTHING: ItemResult = { tokenIds: [], logprobs: null, candidates: null };
/** Of an item that ends unsampled: its sequence ends as if it had sampled one. */
const NO_TOKEN: ItemResult = { tokenIds: [0], logprobs: null, candidates: null };
const NO_FAILURES: RowFailures = new Map();
const NO_MOVES: CacheMoves = { moves: [], jobs: [], peerJobs: [] };
/** Of an item without drafted tokens: the node of its newest token. */
const ROOT: readonly number[] = [0];

/**
 * The host's half of a step: turns plans into commands, and their results into results of items.
 * Grammars' masks are made while the executor computes; where there are none, a step is one command
 * and `start` waits for nothing but the executor.
 */
export class CommandRunner implements ModelRunner {
  readonly #parts: CommandRunnerParts;
  /** What the next command moves. Steps that verify drafts hold up the next one, so it is all. */
  readonly #accepted = new AcceptedTokens();
  readonly #late = new LateDrafts();

  constructor(parts: CommandRunnerParts) {
    this.#parts = parts;
  }

  async start({ moves, items: planned, tasks }: StepWork): Promise<StartedStep> {
    const { builder, writer } = this.#parts;
    const { items, rows, command } = await this.#orMoves(moves, () => {
      const items = itemsOf(planned, tasks);
      const rows: SamplingRow[] = [];
      for (const item of items) if (isSampling(item)) addRows(item, rows);
      const sampling = rows.length === 0 ? null : writer.batch(rows);
      const tokenMoves = this.#accepted.moves();
      return { items, rows, command: builder.build(items, { moves, tokenMoves, sampling }) };
    });
    const { searches, tables } = command;
    const isEdited = command.sampling?.edited === true;
    const wanting = command.prompts.length === 0 ? [] : items.filter(wantsPromptRows);
    const started = await this.#carryOut(command, (part) => take(wanting[part.prompt], part));
    const failures = isEdited ? await this.#edit(started, rows) : NO_FAILURES;
    noteRows(items);
    const { drafter = null } = this.#parts;
    const wanted = drafter === null ? [] : wantedDrafts(items);
    const ahead = drafter && startAhead(drafter, items, wanted);
    return {
      movesMs: started.movesMs,
      finish: async () => {
        const { sampled, candidates } = await started.finish();
        await this.#late.read();
        const found = foundFor(items, searches, candidates);
        const paths = wanted.length === 0 ? null : new Map<StepItem, readonly number[]>();
        let row = 0;
        const results = items.map((item) => {
          if (!isSampling(item)) return found.get(item) ?? unsampled(item);
          const first = row;
          row += 1 + item.planned.drafted;
          if (item.planned.drafted === 0) return resultOf(sampled, first, failures);
          const path = confirmed(item, { sampled, first, failures });
          paths?.set(item, path);
          this.#accepted.add(tables, item.lastRow, path);
          return resultsOf(item, path, { sampled, first, failures });
        });
        if (drafter === null || paths === null) return results;
        // What began ahead reads nothing that moves.
        const before = async () => (ahead === null ? await this.#moveAccepted() : undefined);
        const drafts = (seeds: readonly Seeded[]) =>
          ahead === null ? this.#draft(drafter, seeds) : this.#begunAhead(ahead, seeds);
        return await withDrafts({ drafts, wanted, items, results, paths, before });
      },
    };
  }

  /**
   * A draft for each seed. The host waits for their tokens only where it has to choose among them,
   * or to edit the logits behind them.
   */
  async #draft(
    drafter: Drafter,
    seeded: readonly Seeded[],
  ): Promise<readonly (TokenTree | null)[]> {
    const seeds = seeded.map(({ seed }) => seed);
    const isEdited = seeded.some(({ item }) => item.task.sampling?.edits !== false);
    const late = isEdited ? null : (drafter.late?.(seeds) ?? null);
    return late === null ? await drafter.draft(seeds) : this.#late.add(seeds, late);
  }

  /** Drafts that the device makes since before the seeds were known. */
  async #begunAhead(ahead: LateTrees, seeded: readonly Seeded[]): Promise<readonly TokenTree[]> {
    const seeds = seeded.map(({ seed }) => seed);
    const places = seeded.map(({ wish }) => wish);
    return this.#late.add(seeds, chosenTrees(ahead, places));
  }

  /** Moves what the next command would: a drafter reads accepted tokens in their places. */
  async #moveAccepted(): Promise<void> {
    const tokenMoves = this.#accepted.moves();
    if (tokenMoves === null) return;
    const { builder } = this.#parts;
    const command = builder.build([], { moves: NO_MOVES, tokenMoves, sampling: null });
    await (await this.#carryOut(command, () => {})).finish();
  }

  /** Builds a command. Where that throws, carries out its moves: the bookkeeping assumes them. */
  async #orMoves<T>(moves: CacheMoves, build: () => T): Promise<T> {
    try {
      return build();
    } catch (error) {
      const tokenMoves = this.#accepted.moves();
      const command = this.#parts.builder.build([], { moves, tokenMoves, sampling: null });
      await this.#carryOut(command, () => {});
      throw error;
    }
  }

  /** Starts a command, with whose moves the accepted tokens are in their places. */
  async #carryOut(
    command: StepCommand,
    onPart: (part: PromptPart) => void,
  ): Promise<StartedCommand> {
    try {
      return await this.#parts.executor.start(command, onPart);
    } finally {
      this.#accepted.clear();
    }
  }

  /** Sends the rows' edits. Returns the errors of rows, which are sampled without edits. */
  async #edit(started: StartedCommand, rows: readonly SamplingRow[]): Promise<RowFailures> {
    const { writer } = this.#parts;
    const failures = await writer.prepare(rows);
    for (const edits of writer.edits(rows, failures)) await started.edit(edits);
    return failures;
  }
}

/** Adds the row of the newest token, then one for each drafted token. */
function addRows({ planned, task }: StepItem, rows: SamplingRow[]): void {
  const { sampling, draft } = task;
  assert(sampling !== null, "A sequence samples after its grammar is compiled");
  const position = planned.start + planned.count;
  const awaitedTokens = position - planned.sequence.tokens.length;
  rows.push({ sampling, position, awaitedTokens });
  for (let node = 1; node <= planned.drafted; node++) {
    assert(draft !== null, "Cannot sample behind a draft that is not there");
    const path = pathTo(draft, node);
    rows.push({ sampling, position: position + path.length, drafted: path });
  }
}

/** Where an item's draft begins. */
interface Seeded {
  readonly seed: DraftSeed;
  readonly item: StepItem;
  /** Of the item in its plan. */
  readonly place: number;
  /** Of what is wanted of it among all that is. */
  readonly wish: number;
}

interface DraftedStep {
  /** Makes a draft for each. */
  readonly drafts: (seeds: readonly Seeded[]) => Promise<readonly (TokenTree | null)[]>;
  readonly wanted: readonly WantedDraft[];
  readonly items: readonly StepItem[];
  readonly results: readonly ItemResult[];
  /** The accepted nodes of items with drafted tokens. */
  readonly paths: ReadonlyMap<StepItem, readonly number[]>;
  /** Called before the drafter, if anything is drafted. */
  readonly before: () => Promise<void>;
}

/** The results, with a draft of what follows for each item that wants one. */
async function withDrafts(step: DraftedStep): Promise<readonly ItemResult[]> {
  const { wanted, items, paths, before } = step;
  const results = [...step.results];
  const seeds: Seeded[] = [];
  wanted.forEach((one, wish) => {
    const { place } = one;
    const item = items[place];
    if (item === undefined) return;
    const seed = seedOf(item, one, { path: paths.get(item) ?? ROOT, result: results[place] });
    if (seed !== null) seeds.push({ seed, item, place, wish });
  });
  if (seeds.length === 0) return results;
  await before();
  const drafts = await step.drafts(seeds);
  seeds.forEach(({ place }, at) => {
    const result = results[place];
    if (result === undefined) return;
    const { tokenIds, logprobs, candidates, drafted = 0 } = result;
    // Field by field: spreading objects of several shapes costs 10 us each. None of them failed.
    results[place] = { tokenIds, logprobs, candidates, drafted, draft: drafts[at] ?? null };
  });
  return results;
}

/** Records where the next step finds the sampled tokens. */
function noteRows(items: readonly StepItem[]): void {
  let row = 0;
  for (const item of items) {
    if (!isSampling(item)) continue;
    item.task.sampledRow = row;
    row += 1 + item.planned.drafted;
  }
}

/** Stores results of a prompt's rows in the task. */
function take(item: StepItem | undefined, part: PromptPart): void {
  assert(item !== undefined, "Cannot take results of rows that were not wanted");
  const { planned, task } = item;
  const position = planned.start + part.first;
  const { hiddenPool, promptLogits, promptLogprobs } = task;
  if (part.kind === "scores") {
    part.scores.forEach((score, place) => {
      if (promptLogprobs !== null) promptLogprobs.rows[position + 1 + place] = score;
    });
  } else if (part.kind === "hidden") hiddenPool?.add(position, part.values);
  else promptLogits?.values.set(part.values, position * promptLogits.columns);
}

/** The candidates of items in a beam search. */
function foundFor(
  items: readonly StepItem[],
  searches: readonly RowSearch[],
  candidates: readonly TokenCandidates[],
): ReadonlyMap<StepItem, ItemResult> {
  const results = new Map<StepItem, ItemResult>();
  if (searches.length === 0) return results;
  const searching = items.filter(isSearching);
  const first = rowCount(items.filter(isSampling));
  searches.forEach(({ rows }, place) => {
    const found = candidates[place];
    assert(found !== undefined, "Cannot read a search without results");
    rows.forEach((row, at) => {
      const item = searching[row - first];
      assert(item !== undefined, "Cannot search a row without an item");
      results.set(item, { ...NOTHING, candidates: candidatesOfRow(found, at) });
    });
  });
  return results;
}

/** The token sampled from a row. */
function resultOf(sampled: SampledBatch | null, row: number, failures: RowFailures): ItemResult {
  const logprob = sampled?.logprobs?.[row] ?? null;
  const result = {
    tokenIds: [sampled?.tokens[row] ?? 0],
    logprobs: logprob === null ? null : [logprob],
    candidates: null,
  };
  return failures.has(row) ? { ...result, failure: requestFailure(failures.get(row)) } : result;
}

/**
 * The nodes that sampling confirms, from the root on. The path ends before a row that failed: the
 * next step samples this token without a draft, and reports the failure.
 */
function confirmed({ planned, task }: StepItem, rows: SampledRows): readonly number[] {
  const { sampled, first, failures } = rows;
  const { draft } = task;
  if (failures.has(first) || draft === null) return [0];
  return confirmedPath(draft, 1 + planned.drafted, (node) =>
    failures.has(first + node) ? null : (sampled?.tokens[first + node] ?? null),
  );
}

/** The tokens sampled behind the nodes of a path. */
function resultsOf(
  { planned, task }: StepItem,
  path: readonly number[],
  { sampled, first, failures }: SampledRows,
): ItemResult {
  if (failures.has(first) || task.draft === null) return resultOf(sampled, first, failures);
  const tokenIds: number[] = [];
  const logprobs: PositionLogprobs[] = [];
  for (const node of path) {
    tokenIds.push(sampled?.tokens[first + node] ?? 0);
    const logprob = sampled?.logprobs?.[first + node] ?? null;
    if (logprob !== null) logprobs.push(logprob);
  }
  return {
    tokenIds,
    logprobs: logprobs.length === 0 ? null : logprobs,
    candidates: null,
    drafted: planned.drafted,
  };
}

/** The rows sampled for one item, from `first` on. */
interface SampledRows {
  readonly sampled: SampledBatch | null;
  readonly first: number;
  readonly failures: RowFailures;
}

function unsampled(item: StepItem): ItemResult {
  return endsUnsampled(item) ? NO_TOKEN : NOTHING;
}
