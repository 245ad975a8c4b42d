import { intAt } from "#base";
import type { GroupTables, TokenMoves } from "./step-command.ts";

/**
 * Moves of the keys and values of accepted tokens. A step writes those of a tree's nodes one behind
 * the other; those on the accepted path belong behind the root without gaps:
 *
 *   nodes     0  1  2  3  4        slots of the step
 *   path      0     2     4        accepted
 *   moves     2 → 1, 4 → 2         in this order: no move overwrites what a later one reads
 *
 * A path along the first branch moves nothing. Keys carry the positions of their depths already.
 */
export class AcceptedTokens {
  readonly #starts: number[] = [0];
  readonly #moves: number[] = [];

  /** `tables`: of the step's groups of layers; `row`: the root's; `path`: nodes, the root first. */
  add(tables: readonly GroupTables[], row: number, path: readonly number[]): void {
    if (path.every((node, depth) => node === depth)) return;
    for (const { slots } of tables) {
      path.forEach((node, depth) => {
        if (node !== depth) this.#moves.push(intAt(slots, row + node), intAt(slots, row + depth));
      });
      this.#starts.push(this.#moves.length / 2);
    }
  }

  /** Null: there are none. */
  moves(): TokenMoves | null {
    if (this.#moves.length === 0) return null;
    return { starts: Int32Array.from(this.#starts), moves: Int32Array.from(this.#moves) };
  }

  clear(): void {
    this.#starts.length = 1;
    this.#moves.length = 0;
  }
}
