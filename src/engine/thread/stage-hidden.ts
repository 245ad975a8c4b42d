/** Hidden states as a stage's device takes them from the one before, and gives them to the next. */
import { assert, type Clock, type Timer } from "#base";
import type { Device, HostSlots, MovesMark } from "#devices";
import {
  type DecoderExecutor,
  type GivenHidden,
  Moment,
  type PartExecutor,
  StageWatch,
} from "#engine/forward";
import type { HiddenSlots, StageExecutor, StageLink } from "#engine/pipeline";
import type { HiddenPlace, StageTimes } from "#engine/protocol";

/** Where hidden states leave this stage's device; until the link closes. Throws OUT_OF_MEMORY. */
export function openOut(device: Device, { slots }: Pick<StageLink, "slots">): HostSlots {
  const out = device.openHostSlots(slots.memory, "out");
  slots.beforeClose(() => device.release(out));
  return out;
}

/** The hidden states that the stage before hands over. */
export class IncomingHidden {
  readonly #device: Device;
  readonly #slots: HiddenSlots;
  readonly #in: HostSlots;

  /** Throws OUT_OF_MEMORY. */
  constructor(device: Device, slots: HiddenSlots) {
    this.#device = device;
    this.#slots = slots;
    this.#in = device.openHostSlots(slots.memory, "in");
  }

  /** Those of one step. What is said of them is checked before memory is touched. */
  at({ slot, bytes, follows }: HiddenPlace): GivenHidden {
    return {
      follows,
      take: (rows) => {
        const wanted = rows.shape.reduce((product, size) => product * size, FLOAT_BYTES);
        assert(bytes === wanted, `Cannot take ${bytes} bytes of hidden states: ${wanted} wanted`);
        this.#slots.look(slot, bytes);
        return this.#device.takeTensor(this.#in, slot, rows);
      },
    };
  }
}

const FLOAT_BYTES = Float32Array.BYTES_PER_ELEMENT;

/** An executor behind the first one, as messages of the stage before drive it. */
export type WatchedExecutor = StageExecutor & { readonly times: StageTimes };

/** A stage with a stage behind it. */
export function middleStage(executor: PartExecutor, incoming: IncomingHidden): WatchedExecutor {
  return {
    start: (command, onPart, hidden) =>
      executor.start(command, onPart, hidden && incoming.at(hidden)),
    get times() {
      return executor.times;
    },
  };
}

/** The last stage. */
export function lastStage(
  executor: DecoderExecutor,
  incoming: IncomingHidden,
  parts: { readonly device: Device; readonly clock: Clock; readonly timer: Timer },
): WatchedExecutor {
  const { device, clock } = parts;
  const watch = new StageWatch();
  return {
    async start(command, onPart, hidden) {
      if (hidden === null) return await executor.start(command, onPart, null);
      const { take, follows } = incoming.at(hidden);
      const begunMs = clock.nowMs();
      let arrived: Moment | null = null;
      const given = {
        take(rows: Parameters<GivenHidden["take"]>[0]): MovesMark {
          const mark = take(rows);
          arrived = new Moment(mark, parts);
          return mark;
        },
      };
      const started = await executor.start(command, onPart, given);
      const computed = new Moment(device.markOps(), parts);
      // The device's errors come to light where the step is finished.
      void watch.follow({ begunMs, arrived, computed, handed: null, follows }).catch(() => {});
      return started;
    },
    get times() {
      return watch.times;
    },
  };
}
