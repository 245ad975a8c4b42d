import { describe, expect, test } from "vitest";
import { decisionLine } from "#cluster";
import { accepted, conductorOf, request } from "./fleet.ts";

describe("Algorithm 1", () => {
  test("[CO1] the best prefix is any instance's, and the idlest of its holders sends", () => {
    const { conductor, join } = conductorOf();
    const [a, b, c, kv] = [join("a"), join("b"), join("c"), join("kv", "kv")];
    join("d", "decode");
    const held = [
      { instance: a, tokens: 200 },
      { instance: kv, tokens: 900 },
      { instance: b, tokens: 900 },
    ];
    const first = conductor.explain(request("1"), held);
    expect(first.decision.bestPrefixTokens).toBe(900);
    const moving = accepted(conductor.decide(request("1"), [{ instance: kv, tokens: 900 }]));
    expect(moving.transfer?.from).toBe(kv);
    conductor.book(moving);
    expect(conductor.decide(request("2"), held).bestPrefixAt).toBe(b);
    expect(first.prefill.find(({ instance }) => instance === c)?.usedPrefixTokens).toBe(900);
  });

  test("[CO2] nothing of something is above every threshold, nothing of nothing is not", () => {
    const { conductor, join } = conductorOf({ balancingThreshold: 1e6 });
    const [a, b] = [join("a"), join("b")];
    join("d", "decode");
    const { prefill } = conductor.explain(request("1"), [{ instance: a, tokens: 500 }]);
    expect(prefill[b]).toMatchObject({ ownPrefixTokens: 0, usedPrefixTokens: 500 });
    const none = conductor.explain(request("2"), []);
    expect(none.prefill.map(({ transferMs }) => transferMs)).toEqual([0, 0]);
    expect(accepted(none.decision).transfer).toBeNull();
  });

  test("[CO3] a ratio that equals the threshold moves nothing", () => {
    const { conductor, join } = conductorOf({ balancingThreshold: 2 });
    const [a, b] = [join("a"), join("b")];
    join("d", "decode");
    const usedBy = (own: number) =>
      conductor.explain(request("1"), [
        { instance: a, tokens: 800 },
        { instance: b, tokens: own },
      ]).prefill[b]?.usedPrefixTokens;
    expect(usedBy(400)).toBe(400);
    expect(usedBy(399)).toBe(800);
  });

  test("[CO4] a slow network makes computing quicker, unless the threshold alone decides", () => {
    const used = (estimatesTransfers: boolean) => {
      const { conductor, join } = conductorOf({ estimatesTransfers }, { bytesPerToken: 20_000 });
      const [a, b] = [join("a"), join("b")];
      join("d", "decode");
      return conductor.explain(request("1"), [{ instance: a, tokens: 800 }]).prefill[b];
    };
    expect(used(true)).toMatchObject({ usedPrefixTokens: 0, transferMs: 0 });
    expect(used(false)?.usedPrefixTokens).toBe(800);
    expect(used(false)?.transferMs).toBeGreaterThan(1500);
  });

  test.for(["added", "overlapped"])("[CO5] line, move and prompt are %s", (transferTime) => {
    const { conductor, join } = conductorOf({ transferTime });
    const [a, b] = [join("a"), join("b")];
    join("d", "decode");
    for (const id of ["1", "2"]) conductor.book(accepted(conductor.decide(request(id), [])));
    const { prefill } = conductor.explain(request("3"), [{ instance: a, tokens: 900 }]);
    const row = prefill[b];
    expect(row?.queueMs).toBeCloseTo(1000, -1);
    expect(row?.transferMs).toBeGreaterThan(80);
    const { queueMs = 0, transferMs = 0, prefillMs = 0, ttftMs } = row ?? {};
    const wait = transferTime === "added" ? queueMs + transferMs : Math.max(queueMs, transferMs);
    expect(ttftMs).toBeCloseTo(wait + prefillMs, 6);
  });

  test("[CO5] equals are drawn by the seed, and a burst takes the shorter lines", () => {
    const chosen = (seed: number) => {
      const { conductor, join } = conductorOf({}, { seed });
      for (const id of ["a", "b", "c", "d"]) join(id);
      join("e", "decode");
      return ["1", "2", "3", "4"].map((id) => {
        const decision = accepted(conductor.decide(request(id), []));
        conductor.book(decision);
        return decision.chosen.instance;
      });
    };
    expect(new Set(chosen(1)).size).toBe(4);
    expect(chosen(7)).toEqual(chosen(7));
    expect(new Set([1, 2, 3, 4, 5, 6].map((seed) => chosen(seed).join())).size).toBeGreaterThan(1);
  });

  test("[CO6] a busy holder's prefix moves, and the decision says what", () => {
    const { conductor, join } = conductorOf();
    const [a, b] = [join("a"), join("b")];
    join("d", "decode");
    const held = [{ instance: a, tokens: 900 }];
    for (const id of ["1", "2", "3", "4"]) {
      const decision = accepted(conductor.decide(request(id), held));
      conductor.book(decision);
      if (decision.transfer === null) continue;
      expect(decision.chosen.instance).toBe(b);
      expect(decision.transfer).toEqual({ from: a, startTokens: 0, endTokens: 900 });
      return;
    }
    throw new Error("Nothing moved");
  });

  test("[CO7] random and load read no prefixes, local its own", () => {
    const held = [{ instance: 1, tokens: 900 }];
    const first = (policy: string) => {
      const { conductor, join } = conductorOf({ policy });
      for (const id of ["a", "b"]) join(id);
      join("d", "decode");
      return Array.from({ length: 20 }, () => accepted(conductor.decide(request("1"), held)));
    };
    for (const policy of ["random", "load"]) {
      const decisions = first(policy);
      expect(new Set(decisions.map(({ chosen }) => chosen.instance)).size).toBe(2);
    }
    for (const policy of ["random", "load", "local"]) {
      expect(first(policy).every(({ transfer }) => transfer === null)).toBe(true);
    }
    expect(new Set(first("local").map(({ chosen }) => chosen.instance))).toEqual(new Set([1]));
  });

  test("[CO8] decide and explain book nothing, and terms sum up", () => {
    const { conductor, join } = conductorOf();
    const [a, b] = [join("a"), join("b")];
    const d = join("d", "decode");
    for (let turn = 0; turn < 3; turn++) {
      const { prefill, decode } = conductor.explain(request("1"), [{ instance: a, tokens: 600 }]);
      expect(prefill.map(({ instance }) => instance)).toEqual([a, b]);
      expect(decode.map(({ instance }) => instance)).toEqual([d]);
      for (const row of prefill) {
        expect(row.queueMs + row.transferMs + row.prefillMs).toBeCloseTo(row.ttftMs, 9);
        expect(row.queueMs).toBe(0);
      }
    }
    expect(conductor.booksOf(d)).toMatchObject({
      coming: 0,
      decoding: 0,
      decodingTokens: 0,
      tokens: 0,
    });
  });
});

describe("books", () => {
  test("[CO9] a line runs down, and a late prompt counts as ending now", () => {
    const { conductor, clock, join } = conductorOf();
    const a = join("a");
    join("d", "decode");
    const bookings = ["1", "2"].map((id) =>
      conductor.book(accepted(conductor.decide(request(id), []))),
    );
    expect(conductor.booksOf(a)?.queueMs).toBeCloseTo(2000, -1);
    clock.ms = 400;
    expect(conductor.booksOf(a)?.queueMs).toBeCloseTo(1600, -1);
    clock.ms = 5000;
    expect(conductor.booksOf(a)?.queueMs).toBeCloseTo(1000, -1);
    bookings[0]?.prefilled();
    expect(conductor.booksOf(a)?.queueMs).toBeCloseTo(1000, -1);
    bookings[1]?.prefilled();
    expect(conductor.booksOf(a)?.queueMs).toBe(0);
  });

  test("[CO10] decoding is balanced, goes where room is, and stays on an instance of both", () => {
    const { conductor, join } = conductorOf();
    join("a");
    const [c, d] = [join("c", "decode"), join("d", "decode")];
    const at = ["1", "2", "3", "4"].map((id) => {
      const decision = accepted(conductor.decide(request(id), []));
      conductor.book(decision);
      return decision.decode;
    });
    expect(at.filter((one) => one === c).length).toBe(2);
    const big = accepted(conductor.decide(request("5", 96_000), []));
    conductor.book(big);
    const other = big.decode === c ? d : c;
    expect(accepted(conductor.decide(request("6", 50_000), [])).decode).toBe(other);
    const coupled = conductorOf();
    const [x, y] = [coupled.join("x", "both"), coupled.join("y", "both")];
    const decision = accepted(
      coupled.conductor.decide(request("1"), [{ instance: y, tokens: 990 }]),
    );
    expect(decision.decode).toBe(decision.chosen.instance);
    expect([x, y]).toContain(decision.decode);
  });

  test("[CO11] every order of steps leaves the books at zero", () => {
    const { conductor, clock, join } = conductorOf();
    const instances = [join("a"), join("b"), join("d", "decode"), join("x", "both")];
    const orders = [[], ["prefilled"], ["decoding"], ["transferred", "prefilled", "decoding"]];
    for (let turn = 0; turn < 40; turn++) {
      const held = [{ instance: turn % 4, tokens: 100 * (turn % 9) }];
      const booking = conductor.book(accepted(conductor.decide(request(String(turn)), held)));
      for (const step of orders[turn % orders.length] ?? []) {
        clock.ms += 7;
        for (let again = 0; again < 2; again++) {
          if (step === "prefilled") booking.prefilled();
          if (step === "decoding") booking.decoding();
          if (step === "transferred") booking.transferred();
        }
      }
      booking.ended(turn % 2 === 0 ? 50 : null);
      booking.ended();
      booking.prefilled();
      booking.decoding();
    }
    for (const instance of instances) {
      expect(conductor.booksOf(instance)).toEqual({
        ...{ queuedPrompts: 0, queueMs: 0, decoding: 0, coming: 0 },
        ...{ tokens: 0, decodingTokens: 0, sends: 0, receives: 0 },
      });
    }
  });

  test("[CO17] nonsense of an index, and instances that left, harm no decision", () => {
    const { conductor, join } = conductorOf();
    const a = join("a");
    const gone = join("b");
    join("d", "decode");
    conductor.join({ id: "u", role: "prefill", kvTokens: 0, networkBytesPerMs: 0 });
    conductor.leave(gone);
    const decision = conductor.decide(request("1"), [
      { instance: a, tokens: 1e12 },
      { instance: gone, tokens: 900 },
      { instance: 77, tokens: 900 },
      { instance: a, tokens: Number.NaN },
      { instance: -1, tokens: -5 },
    ]);
    expect(decision.bestPrefixTokens).toBeLessThanOrEqual(1000);
    expect(Number.isFinite(accepted(decision).chosen.ttftMs)).toBe(true);
    const empty = conductorOf();
    expect(empty.conductor.decide(request("1"), [])).toMatchObject({ reason: "no-prefill" });
    empty.join("a");
    expect(empty.conductor.decide(request("1"), [])).toMatchObject({ reason: "no-decode" });
  });

  test("[CO18] a decision is a line with names", () => {
    const { conductor, join } = conductorOf({ ttftDeadlineMs: 10 });
    join("a");
    join("d", "decode");
    const line = decisionLine(conductor.decide(request("r1"), []), (n) => conductor.idOf(n));
    expect(line).not.toContain("\n");
    expect(JSON.parse(line)).toMatchObject({
      ...{ request: "r1", decision: "rejected", reason: "ttft", prefill: "a", decode: "d" },
      ...{ prompt_tokens: 1000, own_prefix_tokens: 0, best_prefix_at: null },
    });
  });
});
