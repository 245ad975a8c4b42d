/** How loaded the two pools of a fleet are, by the conductor's own books. */
import type { ConductorConfig } from "./conductor-config.ts";
import { type DecodePool, presentState } from "./early-rejection.ts";
import type { Instance, InstanceTable } from "./instance-table.ts";
import type { BalanceMember, PoolPressure } from "./role-balance.ts";

/** What the books are read with. */
export interface PressureParts {
  readonly table: InstanceTable;
  readonly config: ConductorConfig;
  readonly pool: DecodePool;
  readonly nowMs: number;
  /** What a prompt takes as a rule, by prediction. */
  readonly usualPrefillMs: number;
  /** Whether predictions of both pools stand on measurements. */
  readonly isMeasured: Readonly<Record<"prefill" | "decode", boolean>>;
}

/** Without a deadline, a pool should have so many usual prompts a worker in its lines. */
const PROMPTS_PER_WORKER = 4;

/**
 * Of prefill: a usual prompt's time behind a mean line over the deadline of the first token;
 * without deadline or measurements a mean line over that of four usual prompts, of which no unit is
 * left. Of decode: the time between tokens over its deadline, and how full the devices are, the
 * worse.
 */
export function pressureOf(parts: PressureParts): PoolPressure {
  const { table, config, pool, nowMs, usualPrefillMs, isMeasured } = parts;
  const prefills = table.prefilling.filter(({ role }) => role === "prefill");
  const lineMs = sumOf(prefills, ({ prefill }) => prefill.queueMs(nowMs)) / (prefills.length || 1);
  const byLine = usualPrefillMs > 0 ? lineMs / (PROMPTS_PER_WORKER * usualPrefillMs) : 0;
  const { ttftDeadlineMs, tbtDeadlineMs } = config;
  const hasTtft = ttftDeadlineMs !== null && isMeasured.prefill && lineMs > 0;
  const prefill = hasTtft ? (lineMs + usualPrefillMs) / ttftDeadlineMs : byLine;
  const held = sumOf(table.decoding, ({ decode }) => decode.tokens);
  const room = sumOf(table.decoding, ({ kvTokens }) => (kvTokens > 0 ? kvTokens : Infinity));
  const fullness = room > 0 ? held / room : 0;
  const hasTbt = tbtDeadlineMs !== null && isMeasured.decode && held > 0;
  const { tbtMs } = presentState(pool, { nowMs, atMs: nowMs, contextTokens: 0 });
  return { prefill, decode: Math.max(fullness, hasTbt ? tbtMs / tbtDeadlineMs : 0) };
}

/** Both pools at a time. */
export interface PoolState {
  readonly pressure: PoolPressure;
  readonly members: readonly Omit<BalanceMember, "mayChange">[];
}

export function poolState(parts: PressureParts): PoolState {
  const { table, nowMs, pool } = parts;
  const members = new Set([...table.prefilling, ...table.decoding]);
  const times = { nowMs, decodeMs: pool.decodeMs };
  const pressure = pressureOf(parts);
  return { pressure, members: [...members].map((instance) => memberOf(instance, times)) };
}

/** Fewer measurements say nothing of times. */
const MEASURED_MIN = 8;

/** Whether predictions of some kind of instance stand on measurements. */
export function isKnown(estimators: ReadonlyMap<string, { readonly samples: number }>): boolean {
  return [...estimators.values()].some(({ samples }) => samples >= MEASURED_MIN);
}

/** How long an instance needs to end what its role gave it. `decodeMs`: what a request decodes. */
function memberOf(
  { id, role, prefill, decode }: Instance,
  { nowMs, decodeMs }: { readonly nowMs: number; readonly decodeMs: number },
): Omit<BalanceMember, "mayChange"> {
  const lineMs = prefill.queueMs(nowMs);
  const drainMs = role === "prefill" || decode.requests === 0 ? lineMs : lineMs + decodeMs;
  return { id, role, drainMs };
}

function sumOf(instances: readonly Instance[], value: (instance: Instance) => number): number {
  let sum = 0;
  for (const instance of instances) sum += value(instance);
  return sum;
}
