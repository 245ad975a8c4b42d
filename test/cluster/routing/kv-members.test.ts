/** Workers that give memory alone, as members of a fleet. */
import { describe, expect, test } from "vitest";
import {
  liveFleet,
  requestOf,
  route,
  transferOf,
  warmUp,
  workerOf,
} from "../conductor/live-fleet.ts";

/** Blocks of 16 tokens of a prompt of 1,000. */
const MOST = 60;

describe("who computes", () => {
  test("[CL220] memory alone gets no request, whatever it has, and is no load", () => {
    const fleet = liveFleet(["b1", "b2", "m1"], {}, { m1: MOST });
    for (let at = 0; at < 20; at++) expect(route(fleet, `r${at}`).worker.id).not.toBe("m1");
    const request = requestOf("a");
    const excluded = new Set(["b1", "b2"]);
    const none = fleet.dispatcher.route({ ...request, excluded });
    expect(none).toMatchObject({ type: "unrouted", reason: "excluded" });
    expect(fleet.dispatcher.laneOf(request)).toBe("b1 b2");
    const { workers } = fleet.dispatcher.explain(request);
    expect(workers.map(({ leftOut }) => leftOut)).toEqual([null, null, "memory"]);
    expect(fleet.conductor.isPooled("m1")).toBe(false);
  });

  test("[CL220] where nothing else is left its model is known, and no worker there", () => {
    const fleet = liveFleet(["b1", "m1"]);
    fleet.membership.leave("b1");
    const found = fleet.dispatcher.route({ ...requestOf("a"), model: "m" });
    expect(found).toMatchObject({ type: "unrouted" });
    expect(fleet.dispatcher.isFull(requestOf("a"))).toBe(false);
  });
});

describe("who gives", () => {
  test("[CL221] memory alone is the source where no worker has more", () => {
    const held = { b2: MOST, m1: MOST };
    // The policy sends the request to who has the prompt: that one is left out.
    const fleet = liveFleet(["b1", "b2", "m1"], {}, held);
    const { worker, source } = route(fleet, "a", { excluded: new Set(["b2"]) });
    expect(worker.id).toBe("b1");
    expect(source).toMatchObject({ workerId: "m1", address: transferOf("m1"), compute: false });
    const more = liveFleet(["b1", "b2", "m1"], {}, { b1: 10, b2: 10, m1: 10 });
    expect(route(more, "a").source).toBeNull();
  });

  test("[CL221] what another worker computes begins with what memory alone has", () => {
    const fleet = liveFleet(["p1", "d1", "m1"], {}, { m1: MOST });
    warmUp(fleet);
    const { worker, source } = route(fleet, "a", { promptTokens: 4000 });
    expect(worker.id).toBe("d1");
    expect(source).toMatchObject({ workerId: "p1", compute: true, prefix: transferOf("m1") });
    const without = liveFleet(["p1", "d1", "m1"]);
    warmUp(without);
    expect(route(without, "a", { promptTokens: 4000 }).source).toMatchObject({ prefix: null });
  });

  test("[CL221] a prompt that is computed where it decodes is fetched from there", () => {
    const fleet = liveFleet(["p1", "d1", "m1"], {}, { m1: 3 });
    warmUp(fleet);
    const { worker, source } = route(fleet, "a", { promptTokens: 60 });
    expect(worker.id).toBe("d1");
    expect(source).toMatchObject({ workerId: "m1", compute: false });
  });

  test("[CL221] other fingerprints and block sizes give nothing", () => {
    const fleet = liveFleet(["b1", "m1"], {}, { m1: MOST });
    fleet.membership.set({ ...workerOf("m1", "kv"), fingerprint: "other" });
    expect(route(fleet, "a").source).toBeNull();
    fleet.membership.set({
      ...workerOf("m1", "kv"),
      kv: { blockTokens: 32, blocks: [1, 10], groupWindows: [null] },
    });
    expect(route(fleet, "b").source).toBeNull();
  });
});
