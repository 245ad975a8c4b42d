/** How many workers each pool of a fleet needs for what it is asked, by the conductor's books. */
import type { ConductorConfig } from "./conductor-config.ts";
import type { DecodePool } from "./early-rejection.ts";
import type { Instance, InstanceTable } from "./instance-table.ts";
import type { PoolLoad } from "./pool-demand.ts";
import type { BalanceMember, PoolNeeds } from "./role-balance.ts";

/** What the books are read with. */
export interface NeedsParts {
  readonly table: InstanceTable;
  readonly config: ConductorConfig;
  readonly pool: DecodePool;
  /** Whether predictions of both pools stand on measurements. */
  readonly isMeasured: Readonly<Record<"prefill" | "decode", boolean>>;
}

/** In which what waits too long should be gone. */
const CATCH_UP_MS = 60_000;
/** Of a line, without a deadline: more is too long. */
const LINE_MS_MAX = 60_000;

/** What lines have above the deadline of the first token. */
export function lateMsOf({ table, config }: NeedsParts, nowMs: number): number {
  const deadlineMs = config.ttftDeadlineMs ?? LINE_MS_MAX;
  return sumOf(table.prefilling, ({ role, prefill }) =>
    role === "prefill" ? Math.max(0, prefill.queueMs(nowMs) - deadlineMs) : 0,
  );
}

/** As if requests that wait at a router, for some worker to be free, had come within a minute. */
export function withWaiting(load: PoolLoad, waiting: number): PoolLoad {
  const asked = load.asked + waiting / CATCH_UP_MS;
  return { ...load, asked, promptWork: (load.promptWork * asked) / load.asked };
}

/** Null: too little was asked, or measured. */
export function needsOf(parts: NeedsParts, load: PoolLoad | null): PoolNeeds | null {
  if (load === null || load.asked === 0 || !parts.isMeasured.prefill) return null;
  const { spanMs } = load;
  return { prefill: prefillNeed(parts, load), decode: decodeNeed(parts, load), spanMs };
}

/** Of a worker's time, what prompts may take: with more, lines grow by chance. */
const BUSY_MAX = 0.92;
const BUSY_MIN = 0.5;
/** Of 100 prompts one waits longer than ln(100) / 2 of its own times over what is free (M/D/1). */
const LATE_1_PERCENT = 2.3;

/** Workers that are busy with the prompts that come, over the part of time that they may be. */
function prefillNeed({ table, config }: NeedsParts, load: PoolLoad): number {
  const workers = table.prefilling.filter(({ role }) => role === "prefill").length;
  const deadlineMs = config.ttftDeadlineMs ?? Number.POSITIVE_INFINITY;
  const promptMs = load.promptWork / load.asked;
  const spareMs = (deadlineMs - promptMs) * workers;
  const busy = spareMs > 0 ? 1 - (LATE_1_PERCENT * promptMs) / spareMs : BUSY_MIN;
  const taken = load.promptWork / askedPerTaken(load);
  const wanted = taken * boundedAsked(load) + load.lateMs / CATCH_UP_MS;
  return wanted / Math.min(Math.max(busy, BUSY_MIN), BUSY_MAX);
}

/** Of the deadline between tokens, and of a device: what a worker is planned to use. */
const USED_MAX = 0.93;
/** So far ahead what decodes is looked at, as it grew lately. */
const AHEAD_MS = 60_000;

/** What decodes then. As much growth as comes by chance, where as many come as end, is none. */
function decodingSoon({ decoding, growth, asked, spanMs }: PoolLoad): number {
  const chance = Math.sqrt((2 * asked) / spanMs);
  const sure = Math.sign(growth) * Math.max(0, Math.abs(growth) - chance);
  return Math.max(0, decoding + sure * AHEAD_MS);
}

/**
 * Requests that decode, soon and as if all that was asked had been taken, over those that a worker
 * has where it is as full as the deadline and its device let it be: by the tokens that both make in
 * a ms, since fewer on a worker are quicker, too.
 */
function decodeNeed(parts: NeedsParts, load: PoolLoad): number {
  const { table, pool, config, isMeasured } = parts;
  const workers = table.decoding;
  if (load.decoding === 0 || workers.length === 0) return 0;
  const tokensEach = load.decodingTokens / load.decoding;
  const deadlineMs = isMeasured.decode ? config.tbtDeadlineMs : null;
  const each = decodingSoon(load) / workers.length;
  const perMs = (count: number, { kind }: Instance) =>
    count > 0 ? count / pool.estimatorOf(kind).ms(count, count * tokensEach) : 0;
  let need = 0;
  for (const worker of workers) {
    const most = fullBatch(worker, pool, { tokensEach, deadlineMs });
    if (!Number.isFinite(most)) continue;
    // Those above wait, or make all others late: they count whole.
    const above = Math.max(0, each - most) / most;
    need += perMs(Math.min(each, most), worker) / perMs(most, worker) + above;
  }
  return need * boundedAsked(load);
}

/** Requests of a full worker; without a bound where nothing is known of it. */
function fullBatch(
  { kind, kvTokens }: Instance,
  pool: DecodePool,
  most: { readonly tokensEach: number; readonly deadlineMs: number | null },
): number {
  const { tokensEach, deadlineMs } = most;
  const byDevice = kvTokens > 0 ? (USED_MAX * kvTokens) / tokensEach : Number.POSITIVE_INFINITY;
  if (deadlineMs === null) return byDevice;
  const [stepMs, sequenceMs, thousandMs] = pool.estimatorOf(kind).coefficients;
  const eachMs = sequenceMs + (thousandMs * tokensEach) / 1e3;
  return Math.max(1, Math.min(byDevice, (USED_MAX * deadlineMs - stepMs) / eachMs));
}

/** Clients that are refused ask again: what they ask for then is the same. */
const ASKED_PER_TAKEN_MAX = 2;

function askedPerTaken({ asked, taken }: PoolLoad): number {
  return taken > 0 ? asked / taken : ASKED_PER_TAKEN_MAX;
}

function boundedAsked(load: PoolLoad): number {
  return Math.min(askedPerTaken(load), ASKED_PER_TAKEN_MAX);
}

/** Fewer measurements say nothing of times. */
const MEASURED_MIN = 8;

/** Whether predictions of some kind of instance stand on measurements. */
export function isKnown(estimators: ReadonlyMap<string, { readonly samples: number }>): boolean {
  return [...estimators.values()].some(({ samples }) => samples >= MEASURED_MIN);
}

/** A worker as the books know it. */
export type PoolMember = Omit<BalanceMember, "mayChange">;

/** How long an instance needs to end what its role gave it. `decodeMs`: what a request decodes. */
export function memberOf(
  { id, role, prefill, decode }: Instance,
  { nowMs, decodeMs }: { readonly nowMs: number; readonly decodeMs: number },
): PoolMember {
  const lineMs = prefill.queueMs(nowMs);
  const drainMs = role === "prefill" || decode.requests === 0 ? lineMs : lineMs + decodeMs;
  return { id, role, drainMs };
}

function sumOf(instances: readonly Instance[], value: (instance: Instance) => number): number {
  let sum = 0;
  for (const instance of instances) sum += value(instance);
  return sum;
}
