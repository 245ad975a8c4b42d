import { describe, expect, test } from "vitest";
import { accepted, conductorOf, request } from "./fleet.ts";

describe("early rejection", () => {
  test("[CO14] a load at its limit is taken, one above it is not", () => {
    const answer = (settings: Record<string, unknown>) => {
      const { conductor, join } = conductorOf(settings);
      join("a");
      join("d", "decode");
      return conductor.decide(request("1"), []);
    };
    const { chosen } = accepted(answer({}));
    const exact = chosen.ttftMs;
    expect(answer({ ttftDeadlineMs: exact }).type).toBe("accepted");
    const rejected = answer({ ttftDeadlineMs: exact - 1 });
    expect(rejected).toMatchObject({ type: "rejected", reason: "ttft" });
    expect(answer({ ttftDeadlineMs: 1, rejection: "none" }).type).toBe("accepted");
    expect(answer({ tbtDeadlineMs: 5 })).toMatchObject({ type: "rejected", reason: "tbt" });
    for (const ttftDeadlineMs of [1e-9, 1, 900]) {
      const decision = answer({ ttftDeadlineMs });
      if (decision.type !== "rejected") throw new Error("taken");
      expect(decision.retryAfterMs).toBeGreaterThanOrEqual(100);
      expect(decision.retryAfterMs).toBeLessThanOrEqual(60_000);
    }
  });

  test("[CO14] a request's own deadlines go before the fleet's", () => {
    const { conductor, join } = conductorOf({ ttftDeadlineMs: 1 });
    join("a");
    join("d", "decode");
    const own = { ...request("1"), ttftDeadlineMs: null };
    expect(conductor.decide(own, []).type).toBe("accepted");
    expect(conductor.decide({ ...own, tbtDeadlineMs: 1 }, [])).toMatchObject({ reason: "tbt" });
  });

  /** One decoding request for each ms above 10 between tokens. */
  test("[CO15] arrival sees what decodes, predicted what will, late waits", () => {
    const fleet = (rejection: string) => {
      const made = conductorOf({ rejection, tbtDeadlineMs: 15.5 });
      for (let at = 0; at < 20; at++) made.join(`p${at}`);
      made.join("d", "decode");
      return made;
    };
    const coming = (rejection: string) => {
      const { conductor } = fleet(rejection);
      for (let at = 0; at < 10; at++) {
        const decision = conductor.decide(request(String(at)), []);
        if (decision.type === "rejected") return at;
        conductor.book(decision);
      }
      return 10;
    };
    // Nothing decodes yet: arrival takes all, and predicted the five that will fit.
    expect(coming("arrival")).toBe(10);
    expect(coming("late")).toBe(10);
    expect(coming("predicted")).toBe(5);
  });

  test("[CO15] those whose time is over are left out of what will decode", () => {
    const { conductor, clock, join } = conductorOf({ tbtDeadlineMs: 13.5, decodeMs: 1000 });
    for (let at = 0; at < 9; at++) join(`p${at}`);
    join("d", "decode");
    for (let at = 0; at < 3; at++) {
      conductor.book(accepted(conductor.decide(request(String(at)), []))).decoding();
    }
    expect(conductor.decide(request("x", 200), [])).toMatchObject({ reason: "tbt" });
    // A prompt of 1,000 ms ends when these have decoded for more than that.
    clock.ms = 300;
    expect(conductor.decide(request("y"), []).type).toBe("accepted");
  });

  test("[CO15] late looks when the prompt is computed", () => {
    const { conductor, join } = conductorOf({ rejection: "late", tbtDeadlineMs: 13.5 });
    for (let at = 0; at < 9; at++) join(`p${at}`);
    join("d", "decode");
    for (let at = 0; at < 3; at++) {
      expect(conductor.mayDecode(request(String(at)))).toBe(true);
      conductor.book(accepted(conductor.decide(request(String(at)), []))).decoding();
    }
    expect(conductor.mayDecode(request("x"))).toBe(false);
  });

  test("[CO15] full devices are a load, too", () => {
    const { conductor, join } = conductorOf({ tbtDeadlineMs: 1000 });
    for (let at = 0; at < 9; at++) join(`p${at}`);
    join("d", "decode");
    conductor.book(accepted(conductor.decide(request("1", 60_000), []))).decoding();
    expect(conductor.decide(request("2", 30_000), []).type).toBe("accepted");
    // A minute from now the first one's time is over by the prediction; its blocks may not be free.
    expect(conductor.decide(request("3", 60_000), [])).toMatchObject({ reason: "tbt" });
  });

  test("[CO16] batch work is rejected before any other", () => {
    const { conductor, join } = conductorOf({ ttftDeadlineMs: 1500 });
    join("a");
    join("d", "decode");
    const batch = { ...request("b"), priority: "batch" as const };
    expect(conductor.decide(batch, []).type).toBe("rejected");
    expect(conductor.decide({ ...batch, promptTokens: 500 }, []).type).toBe("accepted");
    expect(conductor.decide(request("n"), []).type).toBe("accepted");
  });
});
