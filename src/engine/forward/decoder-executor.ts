import { assert, type Clock } from "#base";
import type { Device, DeviceTensor, KvPool } from "#devices";
import {
  type CommandResult,
  MovesFailed,
  type PromptPart,
  type PromptRows,
  type RowSearch,
  type StartedCommand,
  type StepCommand,
  type StepExecutor,
  type TokenMoves,
} from "#engine/loop";
import type { CacheMoves } from "#kvcache";
import type { Decoder, StepInput } from "#models";
import type { RowEdits, SampledBatch, Sampler, SamplingBatch, TokenCandidates } from "#sampling";
import type { GivenHidden } from "./given-hidden.ts";
import type { KvDrafter } from "./kv-drafter.ts";
import type { TokenMover } from "./token-mover.ts";

export interface DecoderExecutorParts {
  readonly device: Device;
  readonly decoder: Decoder;
  readonly kvCache: KvPool;
  readonly sampler: Sampler;
  /** Moves the bytes of blocks. Throws now and later where one could not be moved. */
  readonly memory: { carryOut(moves: CacheMoves): unknown };
  /** Moves tokens inside the cache; null: drafts are chains, whose tokens stay. */
  readonly tokenMover: TokenMover | null;
  /** A drafter with keys and values of its own, which follows every step; null: none does. */
  readonly follower: KvDrafter | null;
  readonly clock: Clock;
  /** Most rows of a prompt's logits or hidden states at a time. */
  readonly promptRowsMax: number;
}

type OnPart = (part: PromptPart) => void;

/** The end of a step: what it sampled, null where it samples nothing. */
interface StepEnd {
  take(): Promise<SampledBatch | null>;
}

/**
 * Executes steps of a decoder on a device of this process. Results of prompts and searches make
 * `start` wait for the device; the rest is enqueued, and read when the step is finished.
 */
export class DecoderExecutor implements StepExecutor {
  readonly #parts: DecoderExecutorParts;

  constructor(parts: DecoderExecutorParts) {
    this.#parts = parts;
  }

  /** `given`: of the part before, where the decoder is the end of one; else null. */
  async start(
    command: StepCommand,
    onPart: OnPart,
    given: Pick<GivenHidden, "take"> | null = null,
  ): Promise<StartedCommand> {
    const movesMs = this.#move(command);
    if (command.tokens === 0) return new StartedRows({ movesMs, candidates: [], end: NO_END });
    const { decoder, kvCache, sampler, follower } = this.#parts;
    const input = inputOf(command);
    decoder.stage(input, sampler.tokens);
    given?.take(decoder.hiddenInput());
    decoder.forward(kvCache);
    follower?.follow(input, sampler.tokens);
    for (const [place, rows] of command.prompts.entries()) {
      await this.#runPrompt(place, rows, onPart);
    }
    const logits = this.#logits(command);
    // Before sampling, which may edit its rows; the rows of searches come after them.
    const candidates = logits === null ? [] : await this.#search(logits, command.searches);
    const { sampling: batch } = command;
    // A step that samples nothing needs an end, too.
    if (logits === null || batch === null) {
      return new StartedRows({ movesMs, candidates, end: this.#markEnd() });
    }
    const pending = { sampler, logits, batch };
    const end = batch.edited ? null : await sampler.start(logits, batch);
    return new StartedRows({ movesMs, candidates, end, pending });
  }

  /** Carries out the command's moves; returns the milliseconds. */
  #move(command: StepCommand): number {
    const { memory, clock } = this.#parts;
    const startMs = clock.nowMs();
    try {
      if (command.tokenMoves !== null) this.#moveTokens(command.tokenMoves);
      memory.carryOut(command);
    } catch (error) {
      throw new MovesFailed(error);
    }
    return clock.nowMs() - startMs;
  }

  #moveTokens(moves: TokenMoves): void {
    const { tokenMover, kvCache, follower } = this.#parts;
    assert(tokenMover !== null, "Cannot move tokens: the limits allow no trees");
    tokenMover.move(follower === null ? [kvCache] : [kvCache, follower.cache], moves);
  }

  #markEnd(): StepEnd {
    const { device, sampler } = this.#parts;
    const mark = device.readLater(device.rows(sampler.tokens, 0, 1));
    return {
      take: async () => {
        await mark.take();
        return null;
      },
    };
  }

  /** Computes hidden states, logits and log-probabilities of a prompt's rows. */
  async #runPrompt(prompt: number, rows: PromptRows, onPart: OnPart): Promise<void> {
    const { decoder, device, promptRowsMax } = this.#parts;
    const { firstRow, hiddenCount, logitCount } = rows;
    for (let first = 0; first < hiddenCount; first += promptRowsMax) {
      const count = Math.min(promptRowsMax, hiddenCount - first);
      const values = await device.readF32(decoder.hidden(rowsFrom(firstRow + first, count)));
      onPart({ prompt, first, kind: "hidden", values });
    }
    for (let first = 0; first < logitCount; first += promptRowsMax) {
      const count = Math.min(promptRowsMax, logitCount - first);
      const logits = decoder.logits(rowsFrom(firstRow + first, count));
      if (rows.logits) {
        onPart({ prompt, first, kind: "logits", values: await device.readF32(logits) });
      }
      const tokens = rows.scores?.tokens.subarray(first, first + count);
      if (rows.scores === null || tokens === undefined || tokens.length === 0) continue;
      const scores = await this.#parts.sampler.score(logits, tokens, rows.scores.wanted);
      onPart({ prompt, first, kind: "scores", scores });
    }
  }

  /** Logits of the command's rows; null: none are read. */
  #logits({ logitRows, sampling }: StepCommand): DeviceTensor | null {
    const { decoder } = this.#parts;
    if (logitRows?.length === 0) return null;
    const made = decoder.samplingLogits();
    return made ?? decoder.logits(logitRows ?? rowsFrom(0, sampling?.count ?? 0));
  }

  async #search(logits: DeviceTensor, searches: readonly RowSearch[]): Promise<TokenCandidates[]> {
    const found: TokenCandidates[] = [];
    for (const { rows, candidates } of searches) {
      found.push(await this.#parts.sampler.topCandidates(logits, rows, candidates));
    }
    return found;
  }
}

const NO_END: StepEnd = { take: async () => null };

interface StartedParts {
  readonly movesMs: number;
  readonly candidates: readonly TokenCandidates[];
  /** Null until all edits came. */
  readonly end: StepEnd | null;
  /** What is sampled, by which sampler; absent: nothing is. */
  readonly pending?: {
    readonly sampler: Sampler;
    readonly logits: DeviceTensor;
    readonly batch: SamplingBatch;
  };
}

/** A command whose forward pass was enqueued. */
class StartedRows implements StartedCommand {
  readonly movesMs: number;
  readonly #parts: StartedParts;
  #end: StepEnd | null;

  constructor(parts: StartedParts) {
    this.movesMs = parts.movesMs;
    this.#parts = parts;
    this.#end = parts.end;
  }

  async edit(edits: RowEdits): Promise<void> {
    const { pending } = this.#parts;
    assert(pending !== undefined && this.#end === null, "Cannot edit rows that need no edits");
    const { sampler, logits, batch } = pending;
    sampler.edit(logits, batch, edits);
    if (edits.first + edits.count === batch.count) this.#end = await sampler.start(logits, batch);
  }

  async finish(): Promise<CommandResult> {
    assert(this.#end !== null, "Cannot finish a step whose edits did not come");
    return { sampled: await this.#end.take(), candidates: this.#parts.candidates };
  }
}

/** What the command tells a decoder. */
export function inputOf(command: StepCommand): StepInput {
  const { tokenSources, treeMask, treeStarts, logitRows, prompts } = command;
  // Rows of prompts may be any.
  const wanted = prompts.length === 0 ? logitRows : null;
  return {
    tokens: command.tokens,
    sequences: command.sequences,
    tokenIds: command.tokenIds,
    positions: command.positions,
    queryStarts: command.queryStarts,
    contextLengths: command.contextLengths,
    tables: command.tables,
    queryLengthMax: command.queryLengthMax,
    contextLengthMax: command.contextLengthMax,
    samplesAll: logitRows === null,
    rowsApart: command.rowsApart,
    ...(wanted !== null && { wantedRows: Int32Array.from(new Set(wanted)) }),
    ...(tokenSources !== null && { tokenSources }),
    ...(treeMask !== null && { treeMask }),
    ...(treeStarts !== null && { treeStarts }),
  };
}

function rowsFrom(first: number, count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, place) => first + place);
}
