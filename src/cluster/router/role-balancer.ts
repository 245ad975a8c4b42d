/** The conductor of a live fleet gives workers other roles when the load shifts. */
import { Counter, Gauge, type Registry } from "prom-client";
import type { Clock } from "#base";
import {
  type FleetConductor,
  type PoolGroup,
  type PoolPressure,
  RoleBalance,
  type RoleBalanceSettings,
  type RoleChange,
} from "#cluster/conductor";
import type { Membership, WorkerRole } from "#cluster/protocol";
import type { Dispatcher } from "#cluster/routing";
import type { OrderedRoles } from "./role-orders.ts";

export interface RoleBalancerOptions {
  readonly conductor: Pick<FleetConductor, "poolGroups" | "queueMsOf">;
  readonly membership: Membership;
  readonly dispatcher: Pick<Dispatcher, "fullness">;
  /** Whether its breaker lets it have requests. */
  readonly admits: (workerId: string) => boolean;
  /** Requests that wait at the router, since workers are full. */
  readonly waiting: () => number;
  /** A line of prompts that takes longer is full. */
  readonly workerWaitMs: number;
  readonly orders: { give(orders: ReadonlyMap<string, WorkerRole>): Promise<OrderedRoles> };
  readonly log: (line: Readonly<Record<string, unknown>>) => void;
  /** One line for operators. */
  readonly say: (message: string) => void;
  readonly registry: Registry;
  readonly clock: Clock;
  readonly settings: RoleBalanceSettings;
}

const LOOK_MS = 1000;

/** What is kept of one group. */
interface Watched {
  readonly balance: RoleBalance;
  /** Its workers and their roles at the last look. */
  fleet: string;
}

export class RoleBalancer {
  readonly #options: RoleBalancerOptions;
  readonly #groups = new WeakMap<PoolGroup, Watched>();
  readonly #pressure: Gauge<"pool">;
  readonly #changes: Counter<"role" | "outcome">;
  #timer: NodeJS.Timeout | null = null;
  /** One order at a time, of whichever group. */
  #isOrdering = false;

  constructor(options: RoleBalancerOptions) {
    this.#options = options;
    const registers = [options.registry];
    this.#pressure = new Gauge({
      name: "perigee_router_pool_pressure",
      help: "How loaded each pool is; 1: as much as it should have. Of the group looked at last.",
      labelNames: ["pool"],
      registers,
    });
    this.#changes = new Counter({
      name: "perigee_router_role_changes_total",
      help: "Roles that the conductor gave workers, and what became of it: changed or refused.",
      labelNames: ["role", "outcome"],
      registers,
    });
  }

  /** Looks once a second until `close`. */
  start(): void {
    this.#timer = setInterval(() => void this.look(), LOOK_MS);
    this.#timer.unref();
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  /** One look at all groups. Settles when the change that is due, if any, is done. */
  async look(): Promise<void> {
    const { conductor } = this.#options;
    for (const group of conductor.poolGroups) {
      const change = this.#lookAt(group);
      if (change === null || this.#isOrdering) continue;
      this.#isOrdering = true;
      try {
        await this.#order(group, change);
      } finally {
        this.#isOrdering = false;
      }
    }
  }

  #lookAt(group: PoolGroup): RoleChange | null {
    const nowMs = this.#options.clock.nowMs();
    const { pressure: own, members } = group.conductor.pools();
    const usable = members.filter(({ id }) => this.#isUsable(id));
    const pressure = this.#withWaiting(own, usable);
    this.#pressure.set({ pool: "prefill" }, pressure.prefill);
    this.#pressure.set({ pool: "decode" }, pressure.decode);
    const watched = this.#watched(group);
    const fleet = usable.map(({ id, role }) => `${id} ${role}`).join();
    if (watched.fleet !== "" && watched.fleet !== fleet) watched.balance.changed(nowMs);
    watched.fleet = fleet;
    const view = usable.map((member) => ({ ...member, mayChange: this.#mayChange(member.id) }));
    return watched.balance.look({ nowMs, pressure, members: view });
  }

  #watched(group: PoolGroup): Watched {
    const known = this.#groups.get(group);
    if (known !== undefined) return known;
    const made = { balance: new RoleBalance(this.#options.settings), fleet: "" };
    this.#groups.set(group, made);
    return made;
  }

  #isUsable(id: string): boolean {
    const { membership, admits } = this.#options;
    return membership.workers.get(id)?.state === "ready" && admits(id);
  }

  /** One that knows no epochs of roles has none that could change. */
  #mayChange(id: string): boolean {
    return this.#options.membership.workers.get(id)?.info.roleEpoch !== undefined;
  }

  /** Requests wait at the router where a pool is full: its books do not grow then. */
  #withWaiting(
    own: PoolPressure,
    members: readonly { readonly id: string; readonly role: string }[],
  ): PoolPressure {
    const { waiting, dispatcher, conductor, workerWaitMs } = this.#options;
    if (waiting() === 0) return own;
    const prefills = members.filter(({ role }) => role === "prefill");
    const decodes = members.filter(({ role }) => role !== "prefill");
    const isLong = ({ id }: { readonly id: string }) =>
      dispatcher.fullness(id) !== null || conductor.queueMsOf(id) > workerWaitMs;
    const takesNone = ({ id }: { readonly id: string }) => dispatcher.fullness(id) === "requests";
    return {
      prefill: prefills.every(isLong) ? Math.max(own.prefill, 1) : own.prefill,
      decode: decodes.every(takesNone) ? Math.max(own.decode, 1) : own.decode,
    };
  }

  async #order(group: PoolGroup, change: RoleChange): Promise<void> {
    const { orders, log, say, clock } = this.#options;
    const { id, role, from, reason, pressure, drainMs } = change;
    const { errors } = await orders.give(new Map([[id, role]]));
    const error = errors.get(id);
    const outcome = error === undefined ? "changed" : "refused";
    this.#watched(group).balance.changed(clock.nowMs(), drainMs);
    this.#changes.inc({ role, outcome });
    log({
      ...{ at_ms: Math.round(clock.nowMs()), event: "role-change", worker: id, from, role, reason },
      pressure: { prefill: rounded(pressure.prefill), decode: rounded(pressure.decode) },
      ...{ drain_ms: Math.round(drainMs), outcome },
      ...(error !== undefined && { error: error.message }),
    });
    const loads = `prefill ${rounded(pressure.prefill)}, decode ${rounded(pressure.decode)}`;
    say(
      error === undefined
        ? `worker ${id} was given the role ${role}, it was ${from}: ${reason} (${loads})`
        : `worker ${id} keeps the role ${from}, wanted ${role} (${reason}): ${error.message}`,
    );
  }
}

function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}
