import type { Clock, Timer } from "#base";
import type { Device, DeviceTensor, HostSlots, KvPool, MovesMark } from "#devices";
import {
  type CommandResult,
  MovesFailed,
  movesOnly,
  type PromptPart,
  type StartedCommand,
  type StepCommand,
  type StepExecutor,
} from "#engine/loop";
import type { HiddenPlace, StageTimes } from "#engine/protocol";
import type { CacheMoves } from "#kvcache";
import type { Decoder } from "#models";
import type { RowEdits } from "#sampling";
import { inputOf } from "./decoder-executor.ts";
import type { GivenHidden } from "./given-hidden.ts";
import { Moment } from "./moment.ts";
import { StageWatch } from "./stage-watch.ts";

/** A step that the parts behind know of. */
export interface StepAway {
  /**
   * The hidden states are in their place; not `ok`: they will not come, and only moves are carried
   * out. To be called once of a step that has some. Throws where they cannot be passed.
   */
  handed(ok: boolean): void;
  edit(edits: RowEdits): Promise<void>;
  readonly result: Promise<CommandResult>;
}

/** The parts of a decoder behind this one. */
export interface NextParts {
  /** `hidden`: where the hidden states of its tokens will be; null: it only moves blocks. */
  start(
    command: StepCommand,
    hidden: HiddenPlace | null,
    onPart: (part: PromptPart) => void,
  ): StepAway;
}

export interface PartExecutorParts {
  readonly device: Device;
  /** A part of a decoder, without its end. */
  readonly decoder: Decoder;
  readonly kvCache: KvPool;
  /** Moves the bytes of blocks. Throws now and later where one could not be moved. */
  readonly memory: { carryOut(moves: CacheMoves): unknown };
  readonly next: NextParts;
  /** Where hidden states leave the device: more than there are steps under way. */
  readonly out: HostSlots;
  readonly clock: Clock;
  readonly timer: Timer;
}

/**
 * Steps whose hidden states are under way here: one is computed, and the next one is enqueued
 * behind it. Launches of many more would fill the device's queue, and block this thread, which is
 * to tell of those that are done.
 */
const STEPS_HERE_MAX = 2;

/** A step whose own layers were enqueued. */
interface StepHere {
  readonly place: HiddenPlace;
  /** The hidden states are in their place already: ops run at once here. */
  readonly isThere: boolean;
  /** Settles once the hidden states are in their place. */
  readonly done: Promise<void>;
}

/**
 * Executes steps of the first layers on a device of this process, and hands hidden states and
 * commands to those that have the further ones, which sample. `start` enqueues the own layers and
 * the way of their hidden states, and waits for neither: the next steps may be enqueued behind, and
 * the further parts learn of each step's hidden states when they are in their place.
 */
export class PartExecutor implements StepExecutor {
  readonly #parts: PartExecutorParts;
  readonly #watch = new StageWatch();
  /** By slot: settles when the step that it was used for has ended everywhere. */
  readonly #vacant: Promise<unknown>[];
  #nextSlot = 0;
  /** The last steps here, `STEPS_HERE_MAX` at most, in order. */
  readonly #here: Promise<void>[] = [];
  #underWay = 0;

  constructor(parts: PartExecutorParts) {
    this.#parts = parts;
    this.#vacant = Array.from({ length: parts.out.slots }, () => Promise.resolve());
  }

  /** Of this part's steps. */
  get times(): StageTimes {
    return this.#watch.times;
  }

  /** `given`: of the part before, where the decoder is not the beginning of one; else null. */
  async start(
    command: StepCommand,
    onPart: (part: PromptPart) => void,
    given: GivenHidden | null = null,
  ): Promise<StartedCommand> {
    const { next } = this.#parts;
    const movesMs = this.#move(command);
    if (command.tokens === 0) return started(movesMs, next.start(command, null, onPart));
    let here: StepHere;
    try {
      here = await this.#run(command, given);
    } catch (error) {
      // The step fails alone: its moves are done everywhere.
      next.start(movesOnly(command), null, onPart);
      throw error;
    }
    const away = next.start(command, here.place, onPart);
    this.#vacant[here.place.slot] = away.result.then(
      () => this.#underWay--,
      () => this.#underWay--,
    );
    return started(movesMs, away, handOver(here, away));
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

  async #run(command: StepCommand, given: GivenHidden | null): Promise<StepHere> {
    const { device, decoder, kvCache, out, clock } = this.#parts;
    const slot = this.#nextSlot;
    if (this.#here.length >= STEPS_HERE_MAX) await this.#here.shift();
    await this.#vacant[slot];
    const begunMs = clock.nowMs();
    decoder.stage(inputOf(command));
    const arrived = given && this.#moment(given.take(decoder.hiddenInput()));
    decoder.forward(kvCache);
    const computed = this.#moment(device.markOps());
    const hidden = decoder.output();
    const handed = this.#moment(device.putTensor(out, slot, hidden));
    const follows = given?.follows ?? this.#underWay > 0;
    this.#underWay++;
    this.#nextSlot = (slot + 1) % out.slots;
    const done = this.#watch.follow({ begunMs, arrived, computed, handed, follows });
    this.#here.push(done.catch(() => {}));
    const place = { slot, bytes: floatBytes(hidden), follows };
    return { place, isThere: handed.atOnce, done };
  }

  #moment(mark: MovesMark): Moment {
    return new Moment(mark, this.#parts);
  }
}

/**
 * Tells the parts behind when the hidden states are in their place, at once if they are: where ops
 * run at once, this thread computes the next step as soon as it may. Rejects where they fail.
 */
async function handOver({ isThere, done }: StepHere, away: StepAway): Promise<void> {
  try {
    if (!isThere) await done;
    away.handed(true);
  } catch (error) {
    away.handed(false);
    throw error;
  }
}

function started(movesMs: number, away: StepAway, handedOver?: Promise<void>): StartedCommand {
  // A step that is dropped is not finished: its error is no one's.
  handedOver?.catch(() => {});
  return {
    movesMs,
    edit: (edits) => away.edit(edits),
    finish: async () => {
      await handedOver;
      return await away.result;
    },
  };
}

function floatBytes({ shape }: DeviceTensor): number {
  return shape.reduce((product, size) => product * size, Float32Array.BYTES_PER_ELEMENT);
}
