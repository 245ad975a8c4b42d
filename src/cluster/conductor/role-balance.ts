/** When a worker should change its role: one pool has had too much for a while, the other room. */
import type { InstanceRole } from "./decision.ts";

/** How loaded both pools are; 1: as much as they should have. */
export interface PoolPressure {
  readonly prefill: number;
  readonly decode: number;
}

/** One worker of the two pools. */
export interface BalanceMember {
  readonly id: string;
  readonly role: InstanceRole;
  /** How long what it has now is predicted to take; 0: it is idle. */
  readonly drainMs: number;
  /** It may be asked to change. */
  readonly mayChange: boolean;
}

/** Both pools at a time. */
export interface BalanceView {
  readonly nowMs: number;
  readonly pressure: PoolPressure;
  readonly members: readonly BalanceMember[];
}

export interface RoleChange {
  readonly id: string;
  readonly role: "prefill" | "decode";
  readonly from: InstanceRole;
  /** Which pool has too much. */
  readonly reason: "prefill-overloaded" | "decode-overloaded";
  /** As it was on average while it was looked at. */
  readonly pressure: PoolPressure;
  readonly drainMs: number;
}

export interface RoleBalanceSettings {
  /** How long one pool must have too much, and the other room. */
  readonly sustainMs: number;
  /** How long nothing changes behind a change. */
  readonly cooldownMs: number;
}

/** As of a pool that has too much; and what the other may have once it has one worker less. */
const OVERLOADED = 0.75;
const HAS_ROOM = 0.5;
/** Of the time that must pass: averages follow in a sixth of it. */
const SMOOTHED = 6;
/** A worker that needs longer to end what it has helps the other pool too late. */
const DRAIN_SHARE_MAX = 4;

/**
 * Looked at every second or so. The gap between both bounds keeps a change from calling for its
 * reverse: the pool that gave a worker has half of what it should have at most.
 */
export class RoleBalance {
  readonly #settings: RoleBalanceSettings;
  #average: PoolPressure | null = null;
  #lookedMs = 0;
  #overloaded: "prefill" | "decode" | null = null;
  #sinceMs = 0;
  #quietUntilMs = Number.NEGATIVE_INFINITY;

  constructor(settings: RoleBalanceSettings) {
    this.#settings = settings;
  }

  /** The change that is due; null: none. Until `changed` is called it is due again. */
  look(view: BalanceView): RoleChange | null {
    const { nowMs } = view;
    const pressure = this.#averageOf(view);
    const overloaded = overloadedPool(pressure, view.members);
    if (overloaded !== this.#overloaded) this.#sinceMs = nowMs;
    this.#overloaded = overloaded;
    if (overloaded === null || nowMs < this.#quietUntilMs) return null;
    if (nowMs - this.#sinceMs < this.#settings.sustainMs) return null;
    const giver = this.#giverTo(overloaded, view.members);
    if (giver === null) return null;
    const { id, role: from, drainMs } = giver;
    return { id, role: overloaded, from, reason: `${overloaded}-overloaded`, pressure, drainMs };
  }

  /** A role was changed, by whomever, or could not be: what was seen before is of another fleet. */
  changed(nowMs: number, drainMs = 0): void {
    const quietMs = Math.max(this.#settings.cooldownMs, drainMs);
    this.#quietUntilMs = Math.max(this.#quietUntilMs, nowMs + quietMs);
    this.#average = null;
    this.#overloaded = null;
  }

  #averageOf({ nowMs, pressure }: BalanceView): PoolPressure {
    const before = this.#average;
    const passedMs = Math.max(0, nowMs - this.#lookedMs);
    this.#lookedMs = nowMs;
    const newest = 1 - Math.exp((-SMOOTHED * passedMs) / this.#settings.sustainMs);
    const mean = (old: number, now: number) => old + (now - old) * newest;
    this.#average =
      before === null
        ? bounded(pressure)
        : {
            prefill: mean(before.prefill, bounded(pressure).prefill),
            decode: mean(before.decode, bounded(pressure).decode),
          };
    return this.#average;
  }

  /** The one that is done soonest; one that decodes alone rather than one that does both. */
  #giverTo(pool: "prefill" | "decode", members: readonly BalanceMember[]): BalanceMember | null {
    const drainMsMax = this.#settings.sustainMs * DRAIN_SHARE_MAX;
    const givers = members.filter(
      ({ role, mayChange, drainMs }) =>
        mayChange && drainMs <= drainMsMax && (role === "prefill") === (pool === "decode"),
    );
    const [first = null] = givers.toSorted(
      (a, b) => a.drainMs - b.drainMs || Number(a.role === "both") - Number(b.role === "both"),
    );
    return first;
  }
}

/** A moment of a thousand times too much is not remembered for ever. */
const PRESSURE_MAX = 4;

function bounded({ prefill, decode }: PoolPressure): PoolPressure {
  return { prefill: Math.min(prefill, PRESSURE_MAX), decode: Math.min(decode, PRESSURE_MAX) };
}

/** Each pool keeps one worker, and the one that gives has room behind it. */
function overloadedPool(
  { prefill, decode }: PoolPressure,
  members: readonly BalanceMember[],
): "prefill" | "decode" | null {
  const prefills = members.filter(({ role }) => role === "prefill").length;
  const decodes = members.length - prefills;
  const without = (pressure: number, workers: number) =>
    workers < 2 ? Number.POSITIVE_INFINITY : (pressure * workers) / (workers - 1);
  if (prefill >= OVERLOADED && without(decode, decodes) <= HAS_ROOM) return "prefill";
  if (decode >= OVERLOADED && without(prefill, prefills) <= HAS_ROOM) return "decode";
  return null;
}
