/** When a role is to change: views of made-up fleets, a look a second. */
import { expect, test } from "vitest";
import { type BalanceMember, type PoolPressure, RoleBalance, type RoleChange } from "#cluster";

const SETTINGS = { sustainMs: 20_000, cooldownMs: 30_000 };

function member(id: string, more: Partial<BalanceMember> = {}): BalanceMember {
  const role = id.startsWith("p") ? "prefill" : id.startsWith("b") ? "both" : "decode";
  return { id, role, drainMs: 0, mayChange: true, ...more };
}

const FLEET = ["p1", "p2", "d1", "d2", "d3"].map((id) => member(id));
const PREFILL_FULL = { prefill: 1.5, decode: 0.2 };
const DECODE_FULL = { prefill: 0.1, decode: 1.2 };

/** Looks once a second for so long; the first change, and when. */
function watch(
  balance: RoleBalance,
  { fromMs = 0, seconds = 60, members = FLEET }: WatchOptions,
  pressureAt: (second: number) => PoolPressure,
): { readonly atMs: number; readonly change: RoleChange } | null {
  for (let second = 0; second <= seconds; second++) {
    const nowMs = fromMs + second * 1000;
    const change = balance.look({ nowMs, pressure: pressureAt(second), members });
    if (change !== null) return { atMs: nowMs, change };
  }
  return null;
}

interface WatchOptions {
  readonly fromMs?: number;
  readonly seconds?: number;
  readonly members?: readonly BalanceMember[];
}

test.each([
  ["prefill", PREFILL_FULL, "decode"],
  ["decode", DECODE_FULL, "prefill"],
] as const)(
  "[CO46] a pool that has too much for the time gets a worker: %s",
  (role, load, from) => {
    const found = watch(new RoleBalance(SETTINGS), {}, () => load);
    expect(found?.atMs).toBe(SETTINGS.sustainMs);
    expect(found?.change).toMatchObject({ role, from, reason: `${role}-overloaded` });
  },
);

test.each([
  ["neither has too much", { prefill: 0.7, decode: 0.1 }],
  ["both have too much", { prefill: 1.5, decode: 1.5 }],
  ["the other has no room with one less", { prefill: 1.5, decode: 0.4 }],
])("[CO46] nothing changes where %s", (_, load) => {
  expect(watch(new RoleBalance(SETTINGS), { seconds: 600 }, () => load)).toBeNull();
});

test("[CO46] a burst that passes changes nothing, however often it comes", () => {
  const burst = (second: number) => (second % 30 < 8 ? PREFILL_FULL : { prefill: 0, decode: 0.2 });
  expect(watch(new RoleBalance(SETTINGS), { seconds: 900 }, burst)).toBeNull();
});

test("[CO46] a gap of a moment does not begin the time anew", () => {
  const gaps = (second: number) => (second === 12 ? { prefill: 0.6, decode: 0.2 } : PREFILL_FULL);
  expect(watch(new RoleBalance(SETTINGS), {}, gaps)?.atMs).toBe(SETTINGS.sustainMs);
});

test("[CO47] behind a change none follows for the pause, or as long as the worker needs", () => {
  for (const [drainMs, waitMs] of [
    [0, SETTINGS.cooldownMs],
    [70_000, 70_000],
  ] as const) {
    const balance = new RoleBalance(SETTINGS);
    const first = watch(balance, {}, () => PREFILL_FULL);
    balance.changed(first?.atMs ?? 0, drainMs);
    const fromMs = (first?.atMs ?? 0) + 1000;
    const second = watch(balance, { fromMs, seconds: 200 }, () => PREFILL_FULL);
    expect(second?.atMs).toBe((first?.atMs ?? 0) + waitMs);
  }
});

test("[CO47] a fleet that changed is looked at anew: what was seen before does not count", () => {
  const balance = new RoleBalance(SETTINGS);
  watch(balance, { seconds: 19 }, () => PREFILL_FULL);
  balance.changed(19_000);
  const found = watch(balance, { fromMs: 20_000, seconds: 200 }, () => PREFILL_FULL);
  expect(found?.atMs).toBe(19_000 + SETTINGS.cooldownMs);
});

test("[CO48] each pool keeps one worker", () => {
  const one = [member("p1"), member("d1")];
  for (const load of [PREFILL_FULL, DECODE_FULL]) {
    expect(watch(new RoleBalance(SETTINGS), { seconds: 600, members: one }, () => load)).toBeNull();
  }
});

test("[CO48] the idle one gives, then the one that is done soonest, one that only decodes first", () => {
  const giver = (...members: readonly BalanceMember[]) =>
    watch(new RoleBalance(SETTINGS), { members: [member("p1"), ...members] }, () => ({
      prefill: 2,
      decode: 0.1,
    }))?.change.id;
  expect(giver(member("d1", { drainMs: 900 }), member("d2"))).toBe("d2");
  expect(giver(member("d1", { drainMs: 900 }), member("d2", { drainMs: 100 }))).toBe("d2");
  expect(giver(member("b1"), member("d2"))).toBe("d2");
  expect(giver(member("d1", { mayChange: false }), member("d2", { drainMs: 9000 }))).toBe("d2");
  const long = { drainMs: 5 * SETTINGS.sustainMs };
  expect(giver(member("d1", long), member("d2", long))).toBeUndefined();
});
