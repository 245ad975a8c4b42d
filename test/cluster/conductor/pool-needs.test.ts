/** How many workers each pool needs, of made-up fleets with known speeds. */
import { expect, test } from "vitest";
import {
  type Accepted,
  Conductor,
  ConductorConfig,
  DecodeEstimator,
  type PoolLoad,
  PrefillEstimator,
  type Rejected,
  seededRng,
  sumOfLoads,
  withWaiting,
} from "#cluster";

/** 100 ms of 1,000 prompt tokens; a step of 20 ms, and 0.2 ms of each sequence. */
function fleetOf(config: Partial<ConductorConfig> = {}) {
  const time = { nowMs: 0 };
  const conductor = new Conductor({
    ...{ clock: { nowMs: () => time.nowMs }, rng: seededRng(1), bytesPerToken: 1 },
    config: ConductorConfig.parse({ ttftDeadlineMs: 30_000, tbtDeadlineMs: 100, ...config }),
    prefillOf: () =>
      new PrefillEstimator(
        [500, 1000, 2000, 4000].map((promptTokens) => ({
          ...{ promptTokens, prefixTokens: 0, ms: promptTokens / 10 },
        })),
      ),
    decodeOf: () =>
      new DecodeEstimator(
        [1, 10, 100].flatMap((sequences) =>
          [1000, 100_000].map((contextTokens) => ({
            ...{ sequences, contextTokens, ms: 20 + 0.2 * sequences },
          })),
        ),
      ),
  });
  for (const id of ["p1", "p2"]) conductor.join(joining(id, "prefill"));
  for (const id of ["d1", "d2", "d3"]) conductor.join(joining(id, "decode"));
  return { time, conductor };
}

function joining(id: string, role: "prefill" | "decode") {
  return { id, role, kvTokens: 1_000_000, networkBytesPerMs: 1e6 };
}

interface Asking {
  readonly perSecond: number;
  readonly seconds: number;
  readonly promptTokens: number;
  /** Of 10 requests, so many are refused. */
  readonly refused?: number;
  readonly priority?: "normal" | "batch";
}

/** Requests come evenly; their prompts are computed and left at once, their decodings stay. */
function ask({ time, conductor }: ReturnType<typeof fleetOf>, asking: Asking): void {
  const { perSecond, seconds, promptTokens, refused = 0, priority = "normal" } = asking;
  for (let at = 0; at < perSecond * seconds; at++) {
    time.nowMs += 1000 / perSecond;
    const request = { id: String(at), promptTokens, outputTokens: null, mustTake: true, priority };
    const decision = conductor.decide(request, []) as Accepted;
    if (at % 10 < refused) {
      const rejected: Rejected = { ...decision, type: "rejected", reason: "ttft", retryAfterMs: 1 };
      conductor.pools.refused(rejected);
      continue;
    }
    const booking = conductor.book(decision);
    booking.prefilled();
    booking.ended(100);
  }
}

const needsOf = ({ conductor }: ReturnType<typeof fleetOf>) =>
  conductor.pools.needs(conductor.pools.load());

test("[CO49] of prompts so many workers are needed as they keep busy, over what they may be", () => {
  const fleet = fleetOf();
  // 10 a second of 200 ms each: two workers are busy.
  ask(fleet, { perSecond: 10, seconds: 60, promptTokens: 2000 });
  expect(needsOf(fleet)?.prefill).toBeCloseTo(2 / 0.92, 1);
});

test("[CO49] the nearer prompts are to their deadline, the less busy workers may be", () => {
  const need = (ttftDeadlineMs: number | null) => {
    const fleet = fleetOf({ ttftDeadlineMs });
    ask(fleet, { perSecond: 10, seconds: 60, promptTokens: 2000 });
    return needsOf(fleet)?.prefill ?? 0;
  };
  expect(need(1000)).toBeGreaterThan(need(30_000) * 1.1);
  expect(need(100)).toBeCloseTo(2 / 0.5, 1);
  expect(need(null)).toBeCloseTo(2 / 0.92, 1);
});

test("[CO49] nothing is said before 20 s and 16 requests; where few come it is looked back further", () => {
  const fleet = fleetOf();
  ask(fleet, { perSecond: 10, seconds: 15, promptTokens: 2000 });
  expect(needsOf(fleet)).toBeNull();
  ask(fleet, { perSecond: 10, seconds: 10, promptTokens: 2000 });
  expect(needsOf(fleet)?.spanMs).toBeCloseTo(20_000, -3);
  const slow = fleetOf();
  ask(slow, { perSecond: 0.05, seconds: 300, promptTokens: 2000 });
  expect(needsOf(slow)).toBeNull();
  ask(slow, { perSecond: 0.5, seconds: 300, promptTokens: 2000 });
  expect(needsOf(slow)?.spanMs).toBeGreaterThan(100_000);
});

test("[CO51] requests that decode are counted in workers as full as the deadline lets them be", () => {
  const { conductor } = fleetOf();
  const load = loadOf({ decoding: 700 });
  // (0.93 * 100 - 20) / 0.2 = 365 on one, in steps of 93 ms; 233 on each of three are 66.7 ms.
  const each = 700 / 3;
  const perMs = each / (20 + 0.2 * each);
  expect(conductor.pools.needs(load)?.decode).toBeCloseTo((3 * perMs) / (365 / 93), 1);
  expect(conductor.pools.needs(loadOf({ decoding: 2100 }))?.decode).toBeCloseTo(2100 / 365, 1);
  expect(conductor.pools.needs(loadOf({ decoding: 0 }))?.decode).toBe(0);
});

test("[CO51] what a device holds bounds them, too; and growth is looked at 60 s ahead", () => {
  const { conductor } = fleetOf();
  const long = loadOf({ decoding: 300, decodingTokens: 300 * 10_000 });
  expect(conductor.pools.needs(long)?.decode).toBeGreaterThan(3);
  const steady = conductor.pools.needs(loadOf({ decoding: 300 }));
  const growing = conductor.pools.needs(loadOf({ decoding: 300, growth: 0.011 }));
  expect(growing?.decode).toBeCloseTo(
    conductor.pools.needs(loadOf({ decoding: 900, decodingTokens: 900_000 }))?.decode ?? 0,
  );
  expect(growing?.decode).toBeGreaterThan(1.4 * (steady?.decode ?? 0));
});

test("[CO52] what is refused counts as what is taken, up to twice that; batch work does not", () => {
  const need = (asking: Partial<Asking>) => {
    const fleet = fleetOf();
    ask(fleet, { perSecond: 10, seconds: 60, promptTokens: 2000, ...asking });
    return needsOf(fleet)?.prefill ?? 0;
  };
  expect(need({ refused: 4 })).toBeCloseTo(need({}), 1);
  expect(need({ refused: 9 })).toBeCloseTo(need({}) / 5, 1);
  expect(need({ refused: 4, priority: "batch" })).toBeCloseTo(need({}) * 0.6, 1);
});

test("[CO52] requests that wait at a router count as if they had come within a minute", () => {
  const load = withWaiting(loadOf({ asked: 0.01, promptWork: 2 }), 600);
  expect(load.asked).toBeCloseTo(0.02);
  expect(load.promptWork).toBeCloseTo(4);
});

test("[CO53] what several routers see adds up", () => {
  const { conductor } = fleetOf();
  const half = loadOf({ decoding: 1050, decodingTokens: 1_050_000, promptWork: 1 });
  const whole = loadOf({ decoding: 2100, decodingTokens: 2_100_000, promptWork: 2, asked: 0.02 });
  const sum = sumOfLoads([half, half]);
  expect(conductor.pools.needs(sum)?.decode).toBeCloseTo(conductor.pools.needs(whole)?.decode ?? 0);
  expect(conductor.pools.needs(sum)?.prefill).toBeCloseTo(
    conductor.pools.needs(whole)?.prefill ?? 0,
  );
  expect(sumOfLoads([])).toBeNull();
});

function loadOf(more: Partial<PoolLoad>): PoolLoad {
  const { decoding = 0, asked = 0.01 } = more;
  return {
    ...{ spanMs: 20_000, asked, taken: asked, promptWork: 1, decoding },
    ...{ decodingTokens: decoding * 1000, growth: 0, lateMs: 0 },
    ...more,
  };
}
