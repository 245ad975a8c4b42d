import { assert } from "#base";
import type { Device, DeviceTensor, KvPool } from "#devices";
import type { TokenMoves } from "#engine/loop";

/** Moves keys and values of tokens inside blocks. Nothing is allocated after the constructor. */
export class TokenMover {
  readonly #device: Device;
  /** [G + 1] and [N, 2] i32. */
  readonly #starts: DeviceTensor;
  readonly #moves: DeviceTensor;

  /** `groupsMax`, `movesMax`: of one step. Throws OUT_OF_MEMORY. */
  constructor(device: Device, { groupsMax, movesMax }: TokenMoverLimits) {
    this.#device = device;
    this.#starts = device.allocate("i32", [groupsMax + 1]);
    this.#moves = device.allocate("i32", [movesMax, 2]);
  }

  /** Enqueues the moves, in each of the pools that make up the blocks. */
  move(pools: readonly KvPool[], { starts, moves }: TokenMoves): void {
    const groups = starts.length - 1;
    const count = moves.length / 2;
    assert(
      starts.length <= (this.#starts.shape[0] ?? 0) && count <= (this.#moves.shape[0] ?? 0),
      `Cannot move ${count} tokens of ${groups} groups: a step has fewer`,
    );
    this.#device.write(this.#starts, starts);
    this.#device.write(this.#moves, moves);
    for (const cache of pools) {
      this.#device.moveTokens({ count, cache, groups, starts: this.#starts, moves: this.#moves });
    }
  }
}

/** The largest step. */
export interface TokenMoverLimits {
  /** Sequences whose tokens move, once for each group of layers. */
  readonly groupsMax: number;
  /** Moved tokens, once for each group of layers. */
  readonly movesMax: number;
}
