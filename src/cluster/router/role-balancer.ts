/** The conductor of a live fleet gives workers other roles when the load shifts. */
import type { Registry } from "prom-client";
import type { Clock } from "#base";
import {
  type FleetConductor,
  type PoolGroup,
  type PoolLoad,
  type PoolMember,
  type PoolNeeds,
  RoleBalance,
  type RoleBalanceSettings,
  type RoleChange,
  sumOfLoads,
  withWaiting,
} from "#cluster/conductor";
import type { ToldDesk } from "#cluster/membership";
import type { Membership, WorkerRole } from "#cluster/protocol";
import type { Dispatcher } from "#cluster/routing";
import { RoleBalancerMetrics } from "./role-balancer-metrics.ts";
import type { OrderedRoles } from "./role-orders.ts";
import { readLoads, writeLoads } from "./told-loads.ts";

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
  /** Orders are fenced: a worker that was given a role since keeps it. */
  readonly orders: { give(orders: ReadonlyMap<string, WorkerRole>): Promise<OrderedRoles> };
  /** Where several routers agree on which of them decides; null: this one is alone. */
  readonly desk: { tell(text: string): Promise<ToldDesk>; close(): Promise<void> } | null;
  readonly log: (line: Readonly<Record<string, unknown>>) => void;
  /** One line for operators. */
  readonly say: (message: string) => void;
  readonly registry: Registry;
  readonly clock: Clock;
  readonly settings: RoleBalanceSettings;
}

/** One group of workers as operators see it. */
export interface ShownGroup {
  /** Null: too little was asked, or measured, or another router decides. */
  readonly needs: PoolNeeds | null;
  readonly lostMs: Readonly<Record<"prefill" | "decode", number>>;
  readonly members: readonly (PoolMember & { readonly mayChange: boolean })[];
}

const LOOK_MS = 1000;
const CHANGES_MAX = 32;
/** What a pool is taken to need where it is full and requests wait: more than it has. */
const FULL = 1.25;

/** What is kept of one group. */
interface Watched {
  readonly balance: RoleBalance;
  /** Its workers and their roles at the last look. */
  fleet: string;
  shown: ShownGroup;
}

export class RoleBalancer {
  readonly #options: RoleBalancerOptions;
  readonly #groups = new WeakMap<PoolGroup, Watched>();
  readonly #metrics: RoleBalancerMetrics;
  /** Lines of the log, the newest last. */
  readonly #changes: Readonly<Record<string, unknown>>[] = [];
  #timer: NodeJS.Timeout | null = null;
  /** One look, and so one order, at a time. */
  #isLooking = false;
  #decides = false;

  constructor(options: RoleBalancerOptions) {
    this.#options = options;
    this.#metrics = new RoleBalancerMetrics(options.registry);
  }

  /** Looks once a second until `close`. */
  start(): void {
    this.#timer = setInterval(() => void this.look(), LOOK_MS);
    this.#timer.unref();
  }

  async close(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    await this.#options.desk?.close();
  }

  /** Whether this router decides now; what it sees of each group; and what was changed last. */
  get shown() {
    const groups = this.#options.conductor.poolGroups.map((group) => this.#watched(group).shown);
    return { decides: this.#decides, groups, changes: this.#changes };
  }

  /** One look at all groups. Settles when the change that is due, if any, is done. */
  async look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      await this.#look();
    } finally {
      this.#isLooking = false;
    }
  }

  async #look(): Promise<void> {
    const groups = this.#options.conductor.poolGroups;
    const own = new Map<string, PoolLoad>();
    for (const { name, conductor } of groups) {
      const load = conductor.pools.load();
      if (load !== null) own.set(name, withWaiting(load, this.#options.waiting()));
    }
    const others = await this.#agree(own);
    this.#metrics.decides.set(others === null ? 0 : 1);
    this.#decides = others !== null;
    for (const group of groups) {
      const loads = [own, ...(others ?? [])].flatMap((told) => told.get(group.name) ?? []);
      const change = this.#lookAt(group, sumOfLoads(loads));
      if (change !== null) await this.#order(group, change);
    }
  }

  /** What other routers are asked; null: another one decides, or no one can. */
  async #agree(own: ReadonlyMap<string, PoolLoad>) {
    const { desk } = this.#options;
    if (desk === null) return [];
    try {
      const { decides, others } = await desk.tell(writeLoads(own));
      return decides ? others.map(readLoads) : null;
    } catch {
      return null; // The link says why; roles stay as they are.
    }
  }

  #lookAt(group: PoolGroup, load: PoolLoad | null): RoleChange | null {
    const nowMs = this.#options.clock.nowMs();
    const { pools } = group.conductor;
    const usable = pools.members().filter(({ id }) => this.#isUsable(id));
    const needs = this.#decides ? this.#whereFull(pools.needs(load), usable) : null;
    this.#metrics.needed(needs);
    const watched = this.#watched(group);
    const { balance } = watched;
    const fleet = usable.map(({ id, role }) => `${id} ${role}`).join();
    if (watched.fleet !== "" && watched.fleet !== fleet) balance.changed(nowMs);
    watched.fleet = fleet;
    const members = usable.map((member) => ({ ...member, mayChange: this.#mayChange(member.id) }));
    const change = balance.look({ nowMs, needs, members });
    watched.shown = { needs, lostMs: balance.lostMs, members };
    return change;
  }

  #watched(group: PoolGroup): Watched {
    const known = this.#groups.get(group);
    if (known !== undefined) return known;
    const balance = new RoleBalance(this.#options.settings);
    const shown = { needs: null, lostMs: balance.lostMs, members: [] };
    const made: Watched = { balance, fleet: "", shown };
    this.#groups.set(group, made);
    return made;
  }

  #isUsable(id: string): boolean {
    const { membership, admits } = this.#options;
    return membership.workers.get(id)?.state === "ready" && admits(id);
  }

  /** One that knows no epochs of roles has none that could change; one that is pinned keeps it. */
  #mayChange(id: string): boolean {
    const info = this.#options.membership.workers.get(id)?.info;
    return info?.roleEpoch !== undefined && info.rolePinned !== true;
  }

  /** Requests wait at the router where a pool is full: its books do not grow then. */
  #whereFull(needs: PoolNeeds | null, members: readonly PoolMember[]): PoolNeeds | null {
    const { waiting, dispatcher, conductor, workerWaitMs } = this.#options;
    if (needs === null || waiting() === 0) return needs;
    const prefills = members.filter(({ role }) => role === "prefill");
    const decodes = members.filter(({ role }) => role !== "prefill");
    const isLong = ({ id }: PoolMember) =>
      dispatcher.fullness(id) !== null || conductor.queueMsOf(id) > workerWaitMs;
    const takesNone = ({ id }: PoolMember) => dispatcher.fullness(id) === "requests";
    const atLeast = (need: number, pool: readonly PoolMember[], isFull: boolean) =>
      isFull ? Math.max(need, FULL * pool.length) : need;
    return {
      ...needs,
      prefill: atLeast(needs.prefill, prefills, prefills.every(isLong)),
      decode: atLeast(needs.decode, decodes, decodes.every(takesNone)),
    };
  }

  async #order(group: PoolGroup, change: RoleChange): Promise<void> {
    const { orders, log, say, clock } = this.#options;
    const { id, role, from, reason, needs, lostMs, drainMs } = change;
    const { errors } = await orders.give(new Map([[id, role]]));
    const error = errors.get(id);
    const outcome = error === undefined ? "changed" : "refused";
    const { balance, shown } = this.#watched(group);
    balance.changed(clock.nowMs(), drainMs);
    this.#metrics.changes.inc({ role, outcome });
    const prefills = shown.members.filter((member) => member.role === "prefill").length;
    const has = { prefill: prefills, decode: shown.members.length - prefills };
    const line = {
      ...{ at_ms: Math.round(clock.nowMs()), event: "role-change", worker: id, from, role, reason },
      needs: { prefill: rounded(needs.prefill), decode: rounded(needs.decode) },
      ...{ has, lost_ms: Math.round(lostMs), drain_ms: Math.round(drainMs), outcome },
      ...(error !== undefined && { error: error.message }),
    };
    log(line);
    this.#changes.push(line);
    if (this.#changes.length > CHANGES_MAX) this.#changes.shift();
    const why =
      `the load needs ${rounded(needs.prefill)} workers for prompts and ` +
      `${rounded(needs.decode)} that decode, there were ${has.prefill} and ${has.decode}`;
    say(
      error === undefined
        ? `worker ${id} was given the role ${role}, it was ${from}: ${why}`
        : `worker ${id} keeps the role ${from}, wanted ${role} (${why}): ${error.message}`,
    );
  }
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
