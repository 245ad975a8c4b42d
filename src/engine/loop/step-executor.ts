import type { PositionLogprobs, RowEdits, SampledBatch, TokenCandidates } from "#sampling";
import type { StepCommand } from "./step-command.ts";

/**
 * Computes commands: it owns the device, the model, the sampler and the bytes of blocks. One runs
 * in this process; others may drive several devices, post commands to another process, or only add
 * up costs. All that crosses is plain data.
 */
export interface StepExecutor {
  /**
   * Carries out the moves and enqueues the rest, in the order of the calls. The step before may
   * still run. Results of `prompts` go to `onPart` as they are computed, before this resolves, so
   * that no side holds the logits of a whole prompt twice.
   *
   * Rejects with MovesFailed where blocks could not be moved, now or before; any other rejection
   * fails this step alone, whose moves are done. A step whose edits do not come is dropped by the
   * next start.
   */
  start(command: StepCommand, onPart: (part: PromptPart) => void): Promise<StartedCommand>;
}

/** A command that was started, and may still run. */
export interface StartedCommand {
  /** Time of the host for moves, which is no part of the step's own. */
  readonly movesMs: number;
  /**
   * Enqueues edits of the logits that are sampled. Where the command's batch is `edited`, those of
   * all its rows come in order, made while the device computes; sampling follows the last ones.
   * `edits` may be reused when this resolves.
   */
  edit(edits: RowEdits): Promise<void>;
  /** Waits for the step, and for no later one. A rejection fails the step. To be called once. */
  finish(): Promise<CommandResult>;
}

/** Results of a command. */
export interface CommandResult {
  /** Of the sampled rows; null: there are none. */
  readonly sampled: SampledBatch | null;
  /** Of each search, a row per row. */
  readonly candidates: readonly TokenCandidates[];
}

/** Results of some rows of `prompts[prompt]`, the first of which is its row `first`. */
export type PromptPart = { readonly prompt: number; readonly first: number } & (
  | {
      /** [rows, E] and [rows, V]. */
      readonly kind: "hidden" | "logits";
      readonly values: Float32Array;
    }
  | { readonly kind: "scores"; readonly scores: readonly PositionLogprobs[] }
);

/** Blocks differ from the bookkeeping: no step may follow. */
export class MovesFailed extends Error {
  /** `cause` is the move's error. */
  constructor(cause: unknown) {
    super("Cannot move blocks", { cause });
    this.name = "MovesFailed";
  }
}
