import type { Clock } from "#base";
import type { Device, KvPool } from "#devices";
import {
  MovesFailed,
  type PromptPart,
  type StartedCommand,
  type StepCommand,
  type StepExecutor,
} from "#engine/loop";
import type { CacheMoves } from "#kvcache";
import type { Decoder } from "#models";
import { inputOf } from "./decoder-executor.ts";

/** The parts of a decoder behind this one. */
export interface NextParts {
  /** As `StepExecutor.start`; with no hidden states the command only moves blocks. */
  start(
    command: StepCommand,
    hidden: Float32Array | null,
    onPart: (part: PromptPart) => void,
  ): Omit<StartedCommand, "movesMs">;
}

export interface PartExecutorParts {
  readonly device: Device;
  /** A part of a decoder, without its end. */
  readonly decoder: Decoder;
  readonly kvCache: KvPool;
  /** Moves the bytes of blocks. Throws now and later where one could not be moved. */
  readonly memory: { carryOut(moves: CacheMoves): unknown };
  readonly next: NextParts;
  readonly clock: Clock;
}

/**
 * Executes steps of the first layers on a device of this process, and hands hidden states and
 * commands to those that have the further ones, which sample. `start` waits for the own layers
 * alone: the next step may begin while the further ones compute.
 */
export class PartExecutor implements StepExecutor {
  readonly #parts: PartExecutorParts;

  constructor(parts: PartExecutorParts) {
    this.#parts = parts;
  }

  /** `hidden`: of the part before, where the decoder is not the beginning of one; else null. */
  async start(
    command: StepCommand,
    onPart: (part: PromptPart) => void,
    hidden: Float32Array | null = null,
  ): Promise<StartedCommand> {
    const { next } = this.#parts;
    const movesMs = this.#move(command);
    let output: Float32Array | null;
    try {
      output = command.tokens === 0 ? null : await this.#run(command, hidden);
    } catch (error) {
      // The step fails alone: its moves are done everywhere.
      next.start({ ...command, ...NO_TOKENS }, null, onPart);
      throw error;
    }
    return { movesMs, ...next.start(command, output, onPart) };
  }

  #move(command: StepCommand): number {
    const { memory, clock } = this.#parts;
    const startMs = clock.nowMs();
    try {
      memory.carryOut(command);
    } catch (error) {
      throw new MovesFailed(error);
    }
    return clock.nowMs() - startMs;
  }

  async #run(command: StepCommand, hidden: Float32Array | null): Promise<Float32Array> {
    const { device, decoder, kvCache } = this.#parts;
    decoder.stage(inputOf(command));
    if (hidden !== null) decoder.takeHidden(hidden);
    decoder.forward(kvCache);
    return await device.readF32(decoder.output());
  }
}

/** A step with nothing but moves. */
const NO_TOKENS: Pick<
  StepCommand,
  "tokens" | "sequences" | "prompts" | "logitRows" | "sampling" | "searches"
> = {
  tokens: 0,
  sequences: 0,
  prompts: [],
  logitRows: new Int32Array(0),
  sampling: null,
  searches: [],
};
