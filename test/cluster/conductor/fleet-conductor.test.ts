import { describe, expect, test } from "vitest";
import { FetchSpeeds } from "../../../src/cluster/conductor/fetch-speeds.ts";
import { liveFleet, requestOf, route, serve, transferOf, warmUp, workerOf } from "./live-fleet.ts";

const POOLS = ["p1", "p2", "d1", "d2"];
const NONE_AHEAD = { requests: 0, tokens: 0, paceMs: 0 };
const DEADLINES = { ttftDeadlineMs: 3000, tbtDeadlineMs: 50 };

describe("the conductor of a live fleet", () => {
  test("[CO19] pools: the shortest line computes, the least crowded decodes", () => {
    const fleet = liveFleet(POOLS);
    warmUp(fleet);
    const found = Array.from({ length: 4 }, (_, at) => route(fleet, `r${at}`));
    const sources = found.map(({ source }) => source?.workerId);
    expect(sources.toSorted()).toEqual(["p1", "p1", "p2", "p2"]);
    expect(found.map(({ worker }) => worker.id).toSorted()).toEqual(["d1", "d1", "d2", "d2"]);
    expect(new Set(sources.slice(0, 2)).size).toBe(2);
    for (const { reservation } of found) reservation.end("ended");
    expect(fleet.dispatcher.books.openCount).toBe(0);
  });

  test("[CO19] a worker that is not to be asked is in no plan, and one that left neither", () => {
    const fleet = liveFleet(POOLS);
    for (let at = 0; at < 6; at++) {
      const routed = route(fleet, `r${at}`, { excluded: new Set(["p1", "d1"]) });
      expect([routed.source?.workerId, routed.worker.id]).toEqual(["p2", "d2"]);
      routed.reservation.end("ended");
    }
    fleet.membership.leave("p2");
    fleet.membership.leave("d2");
    const routed = route(fleet, "last");
    expect([routed.source?.workerId, routed.worker.id]).toEqual(["p1", "d1"]);
    routed.reservation.end("ended");
    // A pool that is gone: whole requests go to who is left, by the policy.
    fleet.membership.leave("d1");
    expect(fleet.dispatcher.isFull(requestOf("whole"))).toBe(false);
    expect(route(fleet, "whole").worker.id).toBe("p1");
  });

  test("[CO19] one pool that does not answer lets no request wait for the other", () => {
    const fleet = liveFleet(["p1", "d1"]);
    fleet.membership.set(workerOf("d1", "decode"), "unreachable");
    expect(fleet.dispatcher.isFull(requestOf("whole"))).toBe(false);
    expect(route(fleet, "whole").worker.id).toBe("p1");
    fleet.membership.set(workerOf("d1", "decode"));
    expect(route(fleet, "apart").worker.id).toBe("d1");
  });

  test("[CO19] pools are full where all workers of one are", () => {
    const fleet = liveFleet(["p1", "d1"]);
    warmUp(fleet);
    expect(fleet.dispatcher.isFull(requestOf("one"))).toBe(false);
    for (let at = 0; at < 4; at++) route(fleet, `r${at}`);
    expect(fleet.dispatcher.isFull(requestOf("one"))).toBe(true);
  });

  test("[CO19] what may not be computed apart goes whole to one that decodes", () => {
    const fleet = liveFleet(POOLS);
    const whole = route(fleet, "whole", { mayFetch: false });
    expect([whole.source, whole.worker.id[0]]).toEqual([null, "d"]);
    const before = fleet.seen.decisions.length;
    // A text to encode, or to count, makes no tokens: it is not planned.
    const text = route(fleet, "text", { isGenerated: false, mayFetch: false });
    expect(text.worker.id[0]).toBe("d");
    expect(fleet.seen.decisions.length).toBe(before);
    const asked = requestOf("text", { isGenerated: false, isBatch: true });
    expect([
      fleet.dispatcher.foresee(asked, { ...NONE_AHEAD, tokens: 1e9 }),
      fleet.dispatcher.mayFill(asked),
    ]).toEqual([...[null, true]]);
  });

  test("[CO19] a role that changes counts from then on", () => {
    const fleet = liveFleet(["p1", "d1", "d2"]);
    fleet.membership.set(workerOf("d2", "prefill"));
    const sources = Array.from({ length: 4 }, (_, at) => route(fleet, `r${at}`));
    expect(new Set(sources.map(({ source }) => source?.workerId))).toEqual(new Set(["p1", "d2"]));
    expect(new Set(sources.map(({ worker }) => worker.id))).toEqual(new Set(["d1"]));
  });

  test("[CL246] a prefill worker with a short line gets the prefix from one with a long line", () => {
    const fleet = liveFleet(["p1", "p2", "d1"], { policy: "global" }, { p1: 50 });
    warmUp(fleet);
    const found = Array.from({ length: 6 }, (_, at) => route(fleet, `r${at}`).source);
    const [first] = found;
    expect([first?.workerId, first?.prefix]).toEqual(["p1", null]);
    const moved = found.filter((source) => source?.workerId === "p2");
    expect(moved.length).toBeGreaterThan(0);
    for (const source of moved) expect(source?.prefix).toEqual(transferOf("p1"));
  });

  test("[CO28] a prefix is not moved where that takes longer than to compute it", () => {
    const fetches = (fleet: ReturnType<typeof liveFleet>, tokens: number, seconds: number) =>
      fleet.conductor.fetched("p2", { tokens, seconds });
    const movedTo = (tokens: number, seconds: number) => {
      const fleet = liveFleet(["p1", "p2", "d1"], { policy: "global" }, { p1: 50 });
      warmUp(fleet);
      fetches(fleet, tokens, seconds);
      const sources = Array.from({ length: 6 }, (_, at) => route(fleet, `r${at}`).source);
      return sources.filter((source) => source?.workerId === "p2").map((source) => source?.prefix);
    };
    expect(movedTo(10_000, 0.1)).toContainEqual(transferOf("p1"));
    // Half a token in a ms, where a ms is enough to compute one.
    const slow = movedTo(10_000, 20);
    expect(slow.length).toBeGreaterThan(0);
    expect(slow.every((prefix) => prefix === null)).toBe(true);
    // What is no measurement changes nothing: hardly any tokens, no time, no number.
    for (const [tokens, seconds] of [
      [100, 1],
      [10_000, 0],
      [1e308, 1e-320],
      [0, 0],
    ] as const) {
      expect(movedTo(tokens, seconds)).toContainEqual(transferOf("p1"));
    }
  });

  test("[CO28] newer fetches count, and those of a worker that began anew are told apart", () => {
    const speeds = new FetchSpeeds();
    const at = (id: string) => new Map(speeds.all()).get(id);
    speeds.join("a");
    speeds.join("b");
    expect(speeds.told("a", { tokens: 1000, seconds: 1 })).toBe(true);
    expect([at("a"), at("b")]).toEqual([1, 1]);
    expect(speeds.told("a", { tokens: 1000, seconds: 1 })).toBe(false);
    expect(speeds.told("a", { tokens: 6000, seconds: 2 })).toBe(true);
    expect(at("a")).toBe(2);
    speeds.told("b", { tokens: 800, seconds: 0.1 });
    expect([at("a"), at("b")]).toEqual([2, 8]);
    // It counts from nothing again: its totals are below what they were.
    expect(speeds.told("a", { tokens: 300, seconds: 0.1 })).toBe(false);
    expect(speeds.told("a", { tokens: 1300, seconds: 0.6 })).toBe(true);
    expect(at("a")).toBe(2);
    speeds.leave("a");
    speeds.join("a");
    expect(at("a")).toBe(8);
    expect(speeds.told("nobody", { tokens: 1000, seconds: 1 })).toBe(false);
  });

  test("[CO28] a move counts at both ends until the first token, not to the end", () => {
    const fleet = liveFleet(["p1", "p2", "d1"], { policy: "global" }, { p1: 50 });
    warmUp(fleet);
    const found = Array.from({ length: 6 }, (_, at) => route(fleet, `r${at}`));
    const moved = found.filter(({ source }) => source?.workerId === "p2");
    expect(moved.length).toBeGreaterThan(0);
    const flows = (id: string) => {
      const [group] = fleet.conductor.poolGroups;
      const number = group?.numbers.get(id);
      const books = number === undefined ? null : group?.conductor.booksOf(number);
      return [books?.sends, books?.receives];
    };
    expect([flows("p1"), flows("p2")]).toEqual([
      [moved.length, 0],
      [0, moved.length],
    ]);
    for (const { reservation } of moved) reservation.tokens(1);
    expect([flows("p1"), flows("p2")]).toEqual([
      [0, 0],
      [0, 0],
    ]);
    for (const { reservation } of found) reservation.end("ended");
    expect(flows("p1")).toEqual([0, 0]);
  });

  test("[CO20] times are learned from what is served, and errors of prediction are small", () => {
    const fleet = liveFleet(POOLS);
    warmUp(fleet);
    warmUp(fleet);
    warmUp(fleet);
    const errors = fleet.conductor.errors();
    expect(errors.get("prefill")?.prefill.meanError).toBeLessThan(0.1);
    expect(errors.get("decode")?.decode.meanError).toBeLessThan(0.1);
    const [last] = fleet.seen.decisions.slice(-1);
    const { predicted_ttft_ms: ms, prompt_tokens: tokens } = JSON.parse(last?.line ?? "{}");
    expect(ms / tokens).toBeGreaterThan(0.9);
    expect(ms / tokens).toBeLessThan(1.1);
  });

  test.each([POOLS, ["b1", "b2"]])(
    "[CO21] %s: what would miss a deadline is rejected",
    (...ids) => {
      const fleet = liveFleet(ids, DEADLINES);
      warmUp(fleet);
      const long = fleet.dispatcher.route(requestOf("long", { promptTokens: 4000 }));
      expect(long).toMatchObject({
        reason: "deadline",
        rejection: { reason: "ttft", deadlineMs: 3000 },
      });
      // A line of 1 s prompts on two workers: the third behind two others comes too late.
      const taken: ReturnType<typeof route>[] = [];
      for (let at = 0; at < 20; at++) {
        const found = fleet.dispatcher.route(requestOf(`r${at}`));
        if (found.type === "routed") taken.push(found);
      }
      expect(taken.length).toBeGreaterThanOrEqual(4);
      expect(taken.length).toBeLessThanOrEqual(6);
      for (const { reservation } of taken) reservation.end("cancelled");
      // Its own deadlines go before the fleet's.
      expect(fleet.dispatcher.route(requestOf("own", { deadlines: { ttftMs: 500 } })).type).toBe(
        "unrouted",
      );
      expect(route(fleet, "none", { promptTokens: 9000, deadlines: { ttftMs: null } }).type).toBe(
        "routed",
      );
      expect(fleet.dispatcher.books.openCount).toBe(ids.length === 4 ? 2 : 1);
    },
  );

  test("[CO21] without deadlines, and with rejection off, nothing is rejected", () => {
    for (const settings of [{}, { ...DEADLINES, rejection: "none" }]) {
      const fleet = liveFleet(POOLS, settings);
      warmUp(fleet);
      for (let at = 0; at < 50; at++) route(fleet, `r${at}`, { promptTokens: 5000 });
      expect(fleet.seen.decisions.every(({ type }) => type === "accepted")).toBe(true);
    }
  });

  test("[CO21] a crowd that would break the time between tokens is rejected", () => {
    const fleet = liveFleet(["b1"], { tbtDeadlineMs: 12 });
    warmUp(fleet);
    const open = Array.from({ length: 8 }, (_, at) => route(fleet, `r${at}`, { promptTokens: 1 }));
    // Steps take 2 ms more with each sequence.
    for (let step = 0; step < 40; step++) {
      fleet.clock.advance(10 + 2 * open.length);
      for (const { reservation } of open) reservation.tokens(1);
    }
    const found = fleet.dispatcher.route(requestOf("one more"));
    expect(found).toMatchObject({ reason: "deadline", rejection: { reason: "tbt" } });
  });

  test("[CO22] what was never measured rejects nothing, and stale beliefs are tried", () => {
    const fleet = liveFleet(["b1"], { ttftDeadlineMs: 5 });
    const [first] = [route(fleet, "first")];
    serve(fleet, first as NonNullable<typeof first>, { prefillMs: 1000 });
    expect(route(fleet, "second").type).toBe("routed");
    const slow = liveFleet(["b1"], { ttftDeadlineMs: 500 });
    for (let at = 0; at < 12; at++) {
      serve(slow, route(slow, `w${at}`, { deadlines: { ttftMs: null } }));
    }
    expect(slow.dispatcher.route(requestOf("too slow")).type).toBe("unrouted");
    slow.clock.advance(11_000);
    const tried = route(slow, "tried");
    expect(slow.dispatcher.route(requestOf("beside it")).type).toBe("unrouted");
    serve(slow, tried, { prefillMs: 10 });
  });

  test("[CO22] a request that was begun goes on, whatever is predicted", () => {
    const fleet = liveFleet(["b1", "b2"], DEADLINES);
    warmUp(fleet);
    const again = { promptTokens: 9000, excluded: new Set(["b1"]) };
    expect(route(fleet, "again", again).worker.id).toBe("b2");
  });

  test("[CO23] the deadline of the first token counts from the request's arrival", () => {
    const fleet = liveFleet(["b1"], DEADLINES);
    warmUp(fleet);
    const arrivedMs = fleet.clock.nowMs() - 2500;
    expect(fleet.dispatcher.route(requestOf("late", { arrivedMs })).type).toBe("unrouted");
    expect(fleet.dispatcher.foresee(requestOf("new"), NONE_AHEAD)).toBeNull();
    expect(
      fleet.dispatcher.foresee(requestOf("behind others"), { ...NONE_AHEAD, tokens: 5000 }),
    ).toMatchObject({
      reason: "ttft",
    });
    const slow = { ...NONE_AHEAD, requests: 5, paceMs: 1000 };
    expect(fleet.dispatcher.foresee(requestOf("behind a slow pace"), slow)).not.toBeNull();
  });

  test("[CO24] first tokens and every gap are told with their deadlines", () => {
    const fleet = liveFleet(["p1", "d1"], DEADLINES);
    const routed = route(fleet, "one", { deadlines: { tbtMs: 20 } });
    serve(fleet, routed, { outputTokens: 4, gapMs: 15 });
    expect(fleet.seen.firstTokens).toEqual([[1000, 3000]]);
    expect(fleet.seen.gaps).toEqual([15, 15, 15].map((ms) => [ms, 20]));
    const whole = route(fleet, "whole", { isUnseen: true });
    serve(fleet, whole);
    const several = route(fleet, "several", { choices: 2 });
    serve(fleet, several);
    expect(fleet.seen.gaps.length).toBe(3);
    expect(fleet.seen.firstTokens.length).toBe(2);
  });

  test("[CO24] lines of answers whose first tokens are not seen shrink with time", () => {
    const fleet = liveFleet(["b1"], DEADLINES);
    warmUp(fleet);
    for (let at = 0; at < 2; at++) route(fleet, `r${at}`, { isUnseen: true, promptTokens: 1200 });
    expect(fleet.dispatcher.route(requestOf("now")).type).toBe("unrouted");
    fleet.clock.advance(2500);
    expect(fleet.dispatcher.route(requestOf("then")).type).toBe("routed");
  });

  test("[CO25] batch work waits where it would take others' deadlines, and is never rejected", () => {
    const fleet = liveFleet(["b1"], DEADLINES);
    warmUp(fleet);
    const batch = requestOf("batch", { isBatch: true, promptTokens: 2000 });
    expect(fleet.dispatcher.mayFill(batch)).toBe(true);
    const urgent = route(fleet, "urgent");
    expect(fleet.dispatcher.mayFill(batch)).toBe(false);
    expect(fleet.dispatcher.mayFill({ ...batch, promptTokens: 100 })).toBe(true);
    serve(fleet, urgent);
    expect(fleet.dispatcher.mayFill(batch)).toBe(true);
    expect(fleet.dispatcher.route({ ...batch, promptTokens: 9000 }).type).toBe("routed");
  });

  test("[CO27] ends of prompts are computed where they decode as deadlines between tokens allow", () => {
    // A ms per token, steps of 10 ms: with 60 ms between tokens some 45 fit, with 400 some 380.
    const inlineMax = (tbtMs: number | null): number => {
      const fleet = liveFleet(["p1", "d1"], { tbtDeadlineMs: tbtMs, rejection: "none" });
      warmUp(fleet);
      let most = 0;
      for (let promptTokens = 8; promptTokens < 1500; promptTokens += 8) {
        const routed = route(fleet, `r${promptTokens}`, { promptTokens });
        if (routed.source === null) most = Math.max(most, promptTokens);
        routed.reservation.end("cancelled");
      }
      return most;
    };
    expect(inlineMax(null)).toBe(64);
    expect(inlineMax(60)).toBeGreaterThan(30);
    expect(inlineMax(60)).toBeLessThan(60);
    expect(inlineMax(400)).toBeGreaterThan(300);
    expect(inlineMax(400)).toBeLessThan(450);
    expect(inlineMax(1e6)).toBe(1024);
    // Another worker leaves a block to it anyway.
    expect(inlineMax(0.001)).toBe(16);
  });

  test("[CO27] a deadline of one that decodes keeps others' prompts out of its steps", () => {
    const fleet = liveFleet(["p1", "d1"], { tbtDeadlineMs: 400 });
    warmUp(fleet);
    const before = route(fleet, "before", { promptTokens: 200 });
    expect([before.source, before.choice.reason]).toEqual([null, "inline"]);
    before.reservation.end("ended");
    const strict = route(fleet, "strict", { promptTokens: 200, deadlines: { tbtMs: 50 } });
    expect(strict.source?.workerId).toBe("p1");
    expect(route(fleet, "beside it", { promptTokens: 200 }).source?.workerId).toBe("p1");
    strict.reservation.end("ended");
    expect(route(fleet, "behind it", { promptTokens: 200 }).source).toBeNull();
  });

  test("[CO26] an explanation has the terms of all workers, and books nothing", () => {
    const fleet = liveFleet(POOLS, DEADLINES, { p2: 40 });
    const ask = fleet.dispatcher.planAskOf(requestOf("asked"));
    const found = ask === null ? null : fleet.conductor.explain(ask);
    expect(found?.prefill.map(({ instance }) => found.idOf(instance))).toEqual(["p1", "p2"]);
    expect(found?.decode.map(({ instance }) => found.idOf(instance))).toEqual(["d1", "d2"]);
    expect(found?.prefill[1]?.usedPrefixTokens).toBe(640);
    expect(fleet.seen.decisions).toEqual([]);
    expect(fleet.dispatcher.books.openCount).toBe(0);
  });

  test("[CO55] an explanation says what is then decided, also where a prompt is computed", () => {
    const fleet = liveFleet(["p1", "d1"], { tbtDeadlineMs: 400 });
    warmUp(fleet);
    for (const promptTokens of [20, 200, 5000]) {
      const own = { promptTokens };
      const ask = fleet.dispatcher.planAskOf(requestOf("asked", own));
      const found = ask === null ? null : fleet.conductor.explain(ask);
      const { chosen, decode } = found?.decision ?? { chosen: null, decode: null };
      const routed = route(fleet, "asked", own);
      const name = (at: number | null | undefined) => (at == null ? null : found?.idOf(at));
      expect(name(decode)).toBe("d1");
      expect(name(chosen?.instance)).toBe(routed.source?.workerId ?? "d1");
      routed.reservation.end("ended");
    }
  });
});
