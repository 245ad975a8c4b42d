import { describe, expect, test } from "vitest";
import { type Candidate, LoadBooks, seededRng } from "#cluster";
import {
  type CandidateCase,
  candidateOf,
  policyOf,
  requestOf,
  SPEEDS,
} from "../../contracts/routing-policy.ts";

const IDS = ["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"];

/** A fleet that is chosen from and booked, with what each worker has of the one prompt. */
class BookedFleet {
  readonly books = new LoadBooks({ clock: { nowMs: () => 0 } });
  readonly counts = new Map<string, number>();
  readonly #kv = policyOf("kv");
  readonly #blocksOf: (id: string) => number;

  constructor(blocksOf: (id: string) => number) {
    this.#blocksOf = blocksOf;
  }

  route(promptTokens: number): { id: string; reason: string } {
    const candidates = IDS.map((id): Candidate => {
      const blocks = this.#blocksOf(id);
      const found = blocks > 0 ? { levels: [blocks, blocks, blocks] as const } : {};
      return { ...candidateOf({ id, ...found }), books: this.books.viewOf(id, SPEEDS) };
    });
    const { chosen, reason } = this.#kv.choose(requestOf({ promptTokens }), candidates);
    const id = IDS[chosen] ?? "";
    const uncached = Math.max(1, promptTokens - this.#blocksOf(id) * 16);
    this.books.reserve({
      ...{ workerId: id, epoch: "1", promptTokens, uncachedTokens: uncached, blockTokens: 16 },
    });
    this.counts.set(id, (this.counts.get(id) ?? 0) + 1);
    return { id, reason };
  }
}

function choose(...cases: CandidateCase[]) {
  const candidates = cases.map(candidateOf);
  const { chosen, reason, costs } = policyOf("kv").choose(
    requestOf({ promptTokens: 1600 }),
    candidates,
  );
  return { id: candidates[chosen]?.info.id, reason, costs };
}

describe("by name, since others got them wrong", () => {
  test("[CL61] a burst of equal prompts with ties does not land on one worker", () => {
    const fleet = new BookedFleet(() => 0);
    for (let turn = 0; turn < 64; turn++) fleet.route(4000);
    expect(fleet.counts.size).toBe(8);
    expect(Math.max(...fleet.counts.values())).toBeLessThanOrEqual(9);
  });

  test("[CL64] a worker that holds everything is not buried: the excess goes to idle ones", () => {
    const fleet = new BookedFleet((id) => (id === "w3" ? 200 : 0));
    const reasons = Array.from({ length: 200 }, () => fleet.route(3300).reason);
    expect(fleet.counts.get("w3")).toBeGreaterThan(25);
    expect(fleet.counts.size).toBe(8);
    expect(reasons[0]).toBe("prefix");
    expect(reasons).toContain("spill");
  });

  test("[CL64] tokens are counted, not requests: a long prompt weighs more than many short", () => {
    const short = { requests: 5, uncachedTokens: 500, heldBlocks: 50 };
    const long = { requests: 1, uncachedTokens: 30_000, heldBlocks: 1900 };
    expect(choose({ id: "short", ...short }, { id: "long", ...long }).id).toBe("short");
  });
});

describe("levels", () => {
  test("[CL67] blocks of host memory count by the time that they take to come", () => {
    const { id, costs } = choose(
      { id: "device", levels: [40, 40, 40] },
      { id: "host", levels: [0, 99, 99] },
    );
    expect(id).toBe("host");
    expect(costs[1]?.terms.load).toBeCloseTo(99 * 16 * 0.01, 6);
    expect(costs[1]?.terms.compute).toBeCloseTo(16 * 0.1, 6);
  });

  test("[CL67] what is computed quicker than it comes is computed", () => {
    const { costs } = choose({ id: "disk", levels: [10, 10, 90] });
    expect(costs[0]?.terms.load).toBe(0);
    expect(costs[0]?.terms.compute).toBeCloseTo((1600 - 160) * 0.1, 6);
  });

  test("[CL67] the last token is computed, whatever is cached", () => {
    const { costs } = choose({ id: "all", levels: [100, 100, 100] });
    expect(costs[0]?.terms.compute).toBeCloseTo(0.1, 6);
  });

  test("[CL64] a worker without free blocks is waited for, which costs the time of its outputs", () => {
    const full = { requests: 20, decoding: 20, heldBlocks: 9990 };
    const { costs } = choose({ id: "full", ...full }, { id: "other", ...full, blocks: 20_000 });
    expect(costs[0]?.terms.memory).toBeGreaterThan(0);
    expect(costs[1]?.terms.memory).toBe(0);
  });

  test("[CL64] a slower worker costs more, by its own measured speed", () => {
    const slow = { ...SPEEDS, prefillMsPerToken: 0.4 };
    expect(choose({ id: "slow", speeds: slow }, { id: "quick" }).id).toBe("quick");
  });
});

test("[CL64] the busier the fleet, the longer a hit is worth waiting for", () => {
  const gate = (busy: number) => {
    let queue = 0;
    const others = Array.from({ length: 7 }, (_, at) => ({
      ...{ id: `w${at}`, requests: busy, decoding: busy },
    }));
    for (; queue < 200_000; queue += 200) {
      const holder = { id: "holder", uncachedTokens: queue, levels: [99, 99, 99] as const };
      if (choose({ ...holder, requests: busy, decoding: busy }, ...others).id !== "holder") break;
    }
    return queue;
  };
  expect(gate(8)).toBeGreaterThan(1.5 * gate(0));
  expect(seededRng(1).next()).toBe(seededRng(1).next());
});

test("[CL64] a prefix counts however long the output will be", () => {
  const levels = [40, 40, 40] as const;
  const candidates = [candidateOf({ id: "empty" }), candidateOf({ id: "warm", levels })];
  for (const outputTokens of [1, 1000, 1_000_000]) {
    for (let seed = 1; seed <= 20; seed++) {
      const { chosen, reason } = policyOf("kv", seed).choose(
        requestOf({ outputTokens }),
        candidates,
      );
      expect([chosen, reason]).toEqual([1, "prefix"]);
    }
  }
});
