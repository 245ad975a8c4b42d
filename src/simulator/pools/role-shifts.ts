/** Nodes that change pools when the load shifts, as the conductor of a live fleet decides it. */
import { type Conductor, RoleBalance, type RoleBalanceSettings, type RoleChange } from "#cluster";
import type { SimClock } from "../sim-clock.ts";
import type { PoolNodes } from "./pool-nodes.ts";
import type { SimRoleChange } from "./pool-result.ts";

export interface RoleShiftsParts {
  readonly clock: SimClock;
  readonly conductor: Conductor;
  readonly nodes: PoolNodes;
  /** Null: no node changes. */
  readonly settings: RoleBalanceSettings | null;
}

const LOOK_MS = 1000;

/**
 * A node that changes gets new work once it has ended the old: a device that does both at a time
 * would have to be simulated as one that is slower at both.
 */
export class RoleShifts {
  readonly all: SimRoleChange[] = [];
  readonly #parts: RoleShiftsParts;
  readonly #balance: RoleBalance | null;
  /** The node that ends what its old pool gave it; null: none does. */
  #ending: { readonly number: number; readonly role: RoleChange["role"] } | null = null;

  constructor(parts: RoleShiftsParts) {
    this.#parts = parts;
    this.#balance = parts.settings === null ? null : new RoleBalance(parts.settings);
  }

  /** Nodes that get nothing now; null: all do. */
  get barred(): ReadonlySet<number> | null {
    const { conductor } = this.#parts;
    if (this.#ending === null) return null;
    const { number, role } = this.#ending;
    const books = conductor.booksOf(number);
    const left = role === "prefill" ? books && books.decoding + books.coming : books?.queuedPrompts;
    if ((left ?? 0) > 0) return new Set([number]);
    this.#ending = null;
    return null;
  }

  /** Looks once a second, until `isOver`. */
  watch(isOver: () => boolean): void {
    if (this.#balance === null || isOver()) return;
    this.#look(this.#balance);
    this.#parts.clock.after(LOOK_MS, () => this.watch(isOver));
  }

  #look(balance: RoleBalance): void {
    const { clock, conductor, nodes } = this.#parts;
    const nowMs = clock.nowMs();
    const needs = conductor.pools.needs(conductor.pools.load());
    const mayChange = this.barred === null;
    const view = conductor.pools.members().map((member) => ({ ...member, mayChange }));
    const change = balance.look({ nowMs, needs, members: view });
    if (change === null) return;
    const { id: node, role, drainMs } = change;
    const number = this.#numberOf(node);
    if (number === null) return;
    nodes.change(number, role);
    this.#ending = { number, role };
    balance.changed(nowMs, drainMs);
    this.all.push({ atMs: nowMs, node, role });
  }

  #numberOf(node: string): number | null {
    const { conductor } = this.#parts;
    for (let number = 0; conductor.idOf(number) !== null; number++) {
      if (conductor.idOf(number) === node) return number;
    }
    return null;
  }
}
