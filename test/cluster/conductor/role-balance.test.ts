/** When a role is to change: views of made-up fleets, a look a second. */
import { expect, test } from "vitest";
import { type BalanceMember, type PoolNeeds, RoleBalance, type RoleChange } from "#cluster";

const SETTINGS = { lostMs: 3000, cooldownMs: 5000 };

function member(id: string, more: Partial<BalanceMember> = {}): BalanceMember {
  const role = id.startsWith("p") ? "prefill" : id.startsWith("b") ? "both" : "decode";
  return { id, role, drainMs: 0, mayChange: true, ...more };
}

function needs(prefill: number, decode: number, spanMs = 20_000): PoolNeeds {
  return { prefill, decode, spanMs };
}

const FLEET = ["p1", "p2", "d1", "d2", "d3"].map((id) => member(id));
/** With two workers for prompts half of the load is served, with three three quarters. */
const PREFILL_FULL = needs(4, 0.5);
/** With three that decode 3/5 of it are, with four 4/5. */
const DECODE_FULL = needs(0.5, 5);

/** Looks once a second for so long; the first change, and when. */
function watch(
  balance: RoleBalance,
  { fromMs = 0, seconds = 60, members = FLEET }: WatchOptions,
  needsAt: (second: number) => PoolNeeds | null,
): { readonly atMs: number; readonly change: RoleChange } | null {
  for (let second = 0; second <= seconds; second++) {
    const nowMs = fromMs + second * 1000;
    const change = balance.look({ nowMs, needs: needsAt(second), members });
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
  ["prefill", PREFILL_FULL, "decode", 0.25],
  ["decode", DECODE_FULL, "prefill", 0.2],
] as const)(
  "[CO46] a role changes once staying has lost enough service: %s",
  (role, load, from, more) => {
    const found = watch(new RoleBalance(SETTINGS), {}, () => load);
    // What a change would bring, less what none is worth.
    expect(found?.atMs).toBe(Math.ceil(SETTINGS.lostMs / ((more - 0.03) * 1000)) * 1000);
    expect(found?.change).toMatchObject({ role, from, reason: `${role}-overloaded`, needs: load });
  },
);

test.each([
  ["all is served", needs(1.9, 2.9)],
  ["both have too few, in proportion", needs(4, 6)],
  ["the other pool would have too few", needs(2.3, 2.9)],
  ["a change would bring little", needs(2.04, 1)],
  ["nothing is known", null],
])("[CO46] nothing changes where %s", (_, load) => {
  expect(watch(new RoleBalance(SETTINGS), { seconds: 3600 }, () => load)).toBeNull();
});

test.each([
  ["they are rare", (second: number) => (second % 300 < 12 ? PREFILL_FULL : needs(0.5, 2))],
  [
    "the giver needs its worker between",
    (second: number) => (second % 60 < 12 ? PREFILL_FULL : needs(0.5, 3)),
  ],
])("[CO46] bursts change nothing where %s", (_, burst) => {
  expect(watch(new RoleBalance(SETTINGS), { seconds: 3600 }, burst)).toBeNull();
});

test("[CO46] loads that alternate do not add up: what one loses the other takes away", () => {
  const turns = (second: number) => (second % 20 < 10 ? PREFILL_FULL : DECODE_FULL);
  expect(watch(new RoleBalance(SETTINGS), { seconds: 3600 }, turns)).toBeNull();
});

test("[CO46] the more is lost, the sooner a role changes; a gap does not begin anew", () => {
  const at = (load: (second: number) => PoolNeeds) =>
    watch(new RoleBalance(SETTINGS), { seconds: 3600 }, load)?.atMs ?? 0;
  const usual = at(() => PREFILL_FULL);
  expect(at(() => needs(2.3, 0.5))).toBeGreaterThan(usual);
  expect(at((second) => (second === 5 ? needs(1, 1) : PREFILL_FULL))).toBeLessThan(usual + 3000);
});

test("[CO46] where few requests come, more must be lost: what is known is older", () => {
  const found = watch(new RoleBalance(SETTINGS), { seconds: 600 }, () => needs(4, 0.5, 60_000));
  expect(found?.atMs).toBe(Math.ceil((3 * SETTINGS.lostMs) / 220) * 1000);
});

test("[CO46] what its pool lacks while the worker ends what it has must be lost as well", () => {
  const short = [member("p1"), member("p2"), member("d1", { drainMs: 10_000 }), member("d2")];
  const members = short.map((one) => ({ ...one, drainMs: one.role === "decode" ? 10_000 : 0 }));
  // Without a second one that decodes 1/2 is served, with it 2/4, as of prompts: that is free.
  const free = watch(new RoleBalance(SETTINGS), { members }, () => needs(4, 1))?.atMs;
  const dear = watch(new RoleBalance(SETTINGS), { members, seconds: 3600 }, () => needs(4, 1.6));
  expect(dear?.atMs).toBeGreaterThan(free ?? Number.POSITIVE_INFINITY);
});

test("[CO47] behind a change none follows for the pause, or as long as the worker needs", () => {
  for (const [drainMs, waitMs] of [
    [0, SETTINGS.cooldownMs],
    [70_000, 70_000],
  ] as const) {
    const balance = new RoleBalance({ ...SETTINGS, lostMs: 500 });
    const first = watch(balance, {}, () => PREFILL_FULL);
    balance.changed(first?.atMs ?? 0, drainMs);
    const fromMs = (first?.atMs ?? 0) + 1000;
    const second = watch(balance, { fromMs, seconds: 200 }, () => PREFILL_FULL);
    expect(second?.atMs).toBe((first?.atMs ?? 0) + waitMs);
  }
});

test("[CO47] a fleet that changed is looked at anew: what was lost before does not count", () => {
  const balance = new RoleBalance(SETTINGS);
  const usual = watch(new RoleBalance(SETTINGS), {}, () => PREFILL_FULL)?.atMs ?? 0;
  watch(balance, { seconds: usual / 1000 - 1 }, () => PREFILL_FULL);
  balance.changed(usual - 1000);
  expect(balance.lostMs).toEqual({ prefill: 0, decode: 0 });
  const found = watch(balance, { fromMs: usual, seconds: 200 }, () => PREFILL_FULL);
  expect(found?.atMs).toBeGreaterThanOrEqual(2 * usual - 2000);
});

test("[CO48] each pool keeps one worker", () => {
  const one = [member("p1"), member("d1")];
  for (const load of [PREFILL_FULL, DECODE_FULL]) {
    expect(watch(new RoleBalance(SETTINGS), { seconds: 600, members: one }, () => load)).toBeNull();
  }
});

test("[CO48] the idle one gives, then the one that is done soonest, one that only decodes first", () => {
  const giver = (...members: readonly BalanceMember[]) =>
    watch(new RoleBalance(SETTINGS), { members: [member("p1"), ...members] }, () => needs(3, 0.1))
      ?.change.id;
  expect(giver(member("d1", { drainMs: 900 }), member("d2"))).toBe("d2");
  expect(giver(member("d1", { drainMs: 900 }), member("d2", { drainMs: 100 }))).toBe("d2");
  expect(giver(member("b1"), member("d2"))).toBe("d2");
  expect(giver(member("d1", { mayChange: false }), member("d2", { drainMs: 9000 }))).toBe("d2");
  expect(giver(member("d1", { mayChange: false }), member("d2", { mayChange: false }))).toBe(
    undefined,
  );
});

test("[CO48] one that needs longer than the loss has lasted does not change yet", () => {
  const members = FLEET.map((one) => ({ ...one, drainMs: 40_000 }));
  const found = watch(new RoleBalance(SETTINGS), { members, seconds: 600 }, () => PREFILL_FULL);
  expect(found?.atMs).toBe(41_000);
});
