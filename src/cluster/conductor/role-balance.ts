/** When a worker should change its role: staying has cost as much service as changing would. */
import type { InstanceRole } from "./decision.ts";

/** How many workers the load needs in each pool; parts of one, too. */
export interface PoolNeeds {
  readonly prefill: number;
  readonly decode: number;
  /** The time that was looked back over. */
  readonly spanMs: number;
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
  /** Null: nothing is known, so nothing is lost. */
  readonly needs: PoolNeeds | null;
  readonly members: readonly BalanceMember[];
}

export type PoolName = "prefill" | "decode";

export interface RoleChange {
  readonly id: string;
  readonly role: PoolName;
  readonly from: InstanceRole;
  /** Which pool has too few workers. */
  readonly reason: "prefill-overloaded" | "decode-overloaded";
  readonly needs: PoolNeeds;
  /** Service that the fleet lost since the change would have helped, in ms of all its requests. */
  readonly lostMs: number;
  readonly drainMs: number;
}

export interface RoleBalanceSettings {
  /** How much service may be lost before a role changes, in ms of all requests. */
  readonly lostMs: number;
  /** How long nothing changes behind a change. */
  readonly cooldownMs: number;
}

/** Of all requests: a change that helps fewer is not worth it, and may be chance. */
const WORTH = 0.03;
/** A look that comes late counts no more than this. */
const LOOK_MS_MAX = 5000;
/** Where little comes, what is known is older: more must be lost. As `PoolDemand` has it. */
const SPAN_MS_USUAL = 20_000;

/** What is counted of one direction. */
interface Lost {
  ms: number;
  /** When it began. */
  sinceMs: number;
}

/**
 * Looked at every second or so. What the fleet serves with n workers where the load needs m is n/m
 * of it, the worse of both pools. What it would serve more with one worker in the other pool adds
 * up while the load lasts, and is taken away again while it would serve less: the sum of E. S. Page
 * 1954, "Continuous Inspection Schemes". Of two shifts in a row it loses at most what it would have
 * lost by changing at once and back, twice (A. R. Karlin et al. 1988, on renting and buying skis).
 */
export class RoleBalance {
  readonly #settings: RoleBalanceSettings;
  readonly #lost: Record<PoolName, Lost> = {
    prefill: { ms: 0, sinceMs: 0 },
    decode: { ms: 0, sinceMs: 0 },
  };
  #lookedMs: number | null = null;
  #quietUntilMs = Number.NEGATIVE_INFINITY;

  constructor(settings: RoleBalanceSettings) {
    this.#settings = settings;
  }

  /** Service that was lost for want of a worker of each pool, in ms of all requests. */
  get lostMs(): Readonly<Record<PoolName, number>> {
    return { prefill: this.#lost.prefill.ms, decode: this.#lost.decode.ms };
  }

  /** The change that is due; null: none. Until `changed` is called it is due again. */
  look({ nowMs, needs, members }: BalanceView): RoleChange | null {
    const passedMs = Math.min(Math.max(0, nowMs - (this.#lookedMs ?? nowMs)), LOOK_MS_MAX);
    this.#lookedMs = nowMs;
    if (needs === null) return null;
    const split = splitOf(members);
    for (const pool of POOLS) this.#count(pool, { needs, split, nowMs, passedMs });
    if (nowMs < this.#quietUntilMs) return null;
    for (const pool of POOLS) {
      const lost = this.#lost[pool];
      if (lost.ms === 0) continue;
      const giver = giverTo(pool, members);
      if (giver === null) continue;
      const { id, role: from, drainMs } = giver;
      // What has lasted for some time may last as long again: a change must be done by then.
      if (drainMs > nowMs - lost.sinceMs) continue;
      if (lost.ms < this.#costMs(pool, { needs, split, drainMs })) continue;
      const reason = `${pool}-overloaded` as const;
      return { id, role: pool, from, reason, needs, lostMs: lost.ms, drainMs };
    }
    return null;
  }

  /** A role was changed, by whomever, or could not be: what was lost before is of another fleet. */
  changed(nowMs: number, drainMs = 0): void {
    const quietMs = Math.max(this.#settings.cooldownMs, drainMs);
    this.#quietUntilMs = Math.max(this.#quietUntilMs, nowMs + quietMs);
    for (const pool of POOLS) this.#lost[pool].ms = 0;
  }

  #count(pool: PoolName, at: CountedLook): void {
    const { needs, split, nowMs, passedMs } = at;
    const lost = this.#lost[pool];
    if (lost.ms === 0) lost.sinceMs = nowMs;
    const more = served(needs, moved(split, pool)) - served(needs, split);
    lost.ms = Math.max(0, lost.ms + (more - WORTH) * passedMs);
  }

  /** What a change costs: some service, and that of the worker while it ends what it has. */
  #costMs(
    pool: PoolName,
    { needs, split, drainMs }: { needs: PoolNeeds; split: Split; drainMs: number },
  ): number {
    const { lostMs } = this.#settings;
    const giving = pool === "prefill" ? "decode" : "prefill";
    const without = { ...split, [giving]: split[giving] - 1 };
    const drained = drainMs * (served(needs, split) - served(needs, without));
    return lostMs * Math.max(1, needs.spanMs / SPAN_MS_USUAL) + drained;
  }
}

const POOLS = ["prefill", "decode"] as const;

/** How many workers each pool has. */
type Split = Readonly<Record<PoolName, number>>;

interface CountedLook {
  readonly needs: PoolNeeds;
  readonly split: Split;
  readonly nowMs: number;
  readonly passedMs: number;
}

function splitOf(members: readonly BalanceMember[]): Split {
  const prefill = members.filter(({ role }) => role === "prefill").length;
  return { prefill, decode: members.length - prefill };
}

function moved({ prefill, decode }: Split, to: PoolName): Split {
  const by = to === "prefill" ? 1 : -1;
  return { prefill: prefill + by, decode: decode - by };
}

/** Part of the load that a split serves; none where a pool has no worker. */
function served(needs: PoolNeeds, { prefill, decode }: Split): number {
  if (prefill < 1 || decode < 1) return 0;
  return Math.min(1, prefill / needs.prefill, decode / needs.decode);
}

/** The one that is done soonest; one that decodes alone rather than one that does both. */
function giverTo(pool: PoolName, members: readonly BalanceMember[]): BalanceMember | null {
  const givers = members.filter(
    ({ role, mayChange }) => mayChange && (role === "prefill") === (pool === "decode"),
  );
  const [first = null] = givers.toSorted(
    (a, b) => a.drainMs - b.drainMs || Number(a.role === "both") - Number(b.role === "both"),
  );
  return first;
}
