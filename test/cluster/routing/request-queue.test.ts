import { describe, expect, test } from "vitest";
import { type QueuedRequest, type Refusal, RequestQueue, seededRng } from "#cluster";
import { SimClock } from "#simulator";

interface Case {
  readonly key?: string;
  readonly priority?: number;
  readonly tokens?: number;
  readonly bytes?: number;
  readonly lane?: string;
  readonly hasRoom?: () => boolean;
}

function start(
  options: Partial<{ requestsMax: number; keyRequestsMax: number; bytesMax: number }> = {},
) {
  const clock = new SimClock();
  const bounds = { requestsMax: 1000, keyRequestsMax: 1000, waitMsMax: 10_000, ...options };
  const queue = new RequestQueue({ clock, timer: clock, ...bounds });
  const admitted: string[] = [];
  const refused: [string, Refusal][] = [];
  const offer = (name: string, { key = "a", priority = 0, tokens = 100, ...rest }: Case = {}) => {
    const request: QueuedRequest = {
      ...{ key, priority, uncachedTokens: tokens, ...rest },
      admit: () => admitted.push(name),
      refuse: (refusal) => refused.push([name, refusal]),
    };
    return queue.offer(request);
  };
  return { clock, queue, admitted, refused, offer };
}

describe("order", () => {
  test("[CL65] a smaller priority goes first, whenever it came; equal ones as they came", () => {
    const { queue, admitted, offer } = start();
    offer("late-1", { priority: 1 });
    offer("late-2", { priority: 1 });
    offer("first", { priority: -1 });
    offer("second");
    while (queue.admitNext());
    expect(admitted).toEqual(["first", "second", "late-1", "late-2"]);
  });

  test.for([1, 2, 3])("[CL65] keys get equal tokens, whatever they send (seed %i)", (seed) => {
    const rng = seededRng(seed);
    const { queue, admitted, offer } = start({ requestsMax: 100_000, keyRequestsMax: 100_000 });
    const tokensOf = new Map<string, number>();
    const send = (key: string, most: number, count: number) => {
      for (let at = 0; at < count; at++) {
        const tokens = 1 + Math.floor(rng.next() * most);
        tokensOf.set(`${key} ${at}`, tokens);
        offer(`${key} ${at}`, { key, tokens });
      }
    };
    send("flood", 200, 8000);
    send("long", 50_000, 40);
    send("usual", 5000, 400);
    const sums: Record<string, number> = { flood: 0, long: 0, usual: 0 };
    for (let turn = 0; turn < 3000; turn++) {
      queue.admitNext();
      const name = admitted.at(-1) ?? "";
      const key = name.split(" ")[0] ?? "";
      sums[key] = (sums[key] ?? 0) + (tokensOf.get(name) ?? 0);
    }
    // Deficits differ by at most one entry and one quantum.
    const { flood = 0, long = 0, usual = 0 } = sums;
    expect(Math.min(flood, long, usual)).toBeGreaterThan(200_000);
    expect(Math.max(flood, long, usual) - Math.min(flood, long, usual)).toBeLessThan(75_000);
  });
});

describe("bounds", () => {
  test("[CL65] a full queue refuses with 503, a key that has its part of it with 429", () => {
    const { offer, queue } = start({ requestsMax: 3, keyRequestsMax: 2 });
    offer("1");
    offer("2");
    expect(offer("3")).toMatchObject({ status: 429, reason: "key-full", retryAfterS: 1 });
    offer("4", { key: "b" });
    expect(offer("5", { key: "c" })).toMatchObject({ status: 503, reason: "full" });
    expect(queue.count).toBe(3);
  });

  test("[CL65] Retry-After is the time that those before take at the present pace", () => {
    const { clock, queue, offer } = start({ requestsMax: 20 });
    for (let at = 0; at < 20; at++) offer(`${at}`);
    for (let at = 0; at < 5; at++) {
      clock.run(clock.nowMs() + 1500);
      queue.admitNext();
    }
    for (let at = 0; at < 5; at++) offer(`more ${at}`);
    expect(offer("last")).toMatchObject({ status: 503, retryAfterS: 30 });
  });

  test("[CL65] who waits too long is refused, once; who leaves is told nothing", () => {
    const { clock, queue, offer, admitted, refused } = start();
    const leave = offer("leaves");
    offer("waits");
    if (typeof leave === "function") leave();
    clock.run(9000);
    offer("young");
    clock.run(10_001);
    expect(refused).toMatchObject([["waits", { status: 503, reason: "waited" }]]);
    expect(queue.admitNext()).toBe(true);
    expect(queue.admitNext()).toBe(false);
    expect(admitted).toEqual(["young"]);
    clock.run();
    expect(refused).toHaveLength(1);
    expect(queue.count).toBe(0);
  });

  test("[CL65] closing refuses all that wait and all that come", () => {
    const { clock, queue, offer, refused } = start();
    offer("1");
    offer("2", { key: "b", priority: 3 });
    queue.close();
    expect(refused.map(([, { reason }]) => reason)).toEqual(["closed", "closed"]);
    expect(offer("3")).toMatchObject({ status: 503, reason: "closed" });
    clock.run();
    expect(refused).toHaveLength(2);
  });
});

describe("lanes", () => {
  test("[CL140] a lane without room holds no other up; priorities hold across lanes", () => {
    const { queue, admitted, offer } = start();
    let hasRoom = false;
    offer("x late", { lane: "x", priority: 2, hasRoom: () => hasRoom });
    offer("x first", { lane: "x", priority: -9, hasRoom: () => hasRoom });
    offer("y late", { lane: "y", priority: 1 });
    offer("y", { lane: "y" });
    while (queue.admitNext());
    expect(admitted).toEqual(["y", "y late"]);
    offer("y last", { lane: "y", priority: 1 });
    hasRoom = true;
    while (queue.admitNext());
    expect(admitted.slice(2)).toEqual(["x first", "y last", "x late"]);
    expect(queue.count).toBe(0);
  });

  test("[CL140] lanes of one priority take turns", () => {
    const { queue, admitted, offer } = start();
    for (let at = 0; at < 3; at++) offer(`x${at}`, { lane: "x" });
    for (let at = 0; at < 2; at++) offer(`y${at}`, { lane: "y" });
    while (queue.admitNext());
    expect(admitted).toEqual(["x0", "y0", "x1", "y1", "x2"]);
  });
});

describe("hostile requests", () => {
  test("[CL143] 10^4 priorities and keys, left and admitted at random, end at zero", () => {
    const rng = seededRng(5);
    const bounds = { requestsMax: 10_000, keyRequestsMax: 10_000, bytesMax: 1e9 };
    const { queue, admitted, offer, clock } = start(bounds);
    const waiting: { readonly leave: () => void; readonly priority: number }[] = [];
    for (let at = 0; at < 10_000; at++) {
      const priority = Math.floor((rng.next() - 0.5) * Number.MAX_SAFE_INTEGER);
      const lane = `lane ${at % 7}`;
      const left = offer(`${priority}`, { priority, key: `key ${at}`, bytes: 10, lane });
      if (typeof left === "function") waiting.push({ leave: left, priority });
    }
    expect([queue.count, queue.bytes]).toEqual([10_000, 100_000]);
    expect(offer("one more")).toMatchObject({ status: 503, reason: "full" });
    const leaving = new Set(waiting.filter(() => rng.next() < 0.5));
    for (const { leave } of leaving) leave();
    while (queue.admitNext());
    const staying = waiting.filter((each) => !leaving.has(each));
    const wanted = staying.map(({ priority }) => priority).sort((a, b) => a - b);
    expect(queue.count).toBe(0);
    expect(admitted.map(Number)).toEqual(wanted);
    clock.run();
    expect([queue.count, queue.bytes]).toEqual([0, 0]);
  });

  test("[CL143] bodies that wait are bounded in bytes, and counted down again", () => {
    const { queue, offer } = start({ bytesMax: 1000 });
    offer("half", { bytes: 600 });
    expect(offer("too much", { bytes: 600 })).toMatchObject({ reason: "full" });
    queue.admitNext();
    expect(typeof offer("fits now", { bytes: 600 })).toBe("function");
  });

  test("[CL143] quiet times between admissions are no part of Retry-After", () => {
    const { clock, queue, offer } = start({ requestsMax: 4 });
    for (let turn = 0; turn < 5; turn++) {
      offer("alone");
      queue.admitNext();
      clock.run(clock.nowMs() + 9000);
    }
    for (let at = 0; at < 4; at++) offer(`${at}`);
    expect(offer("last")).toMatchObject({ reason: "full", retryAfterS: 1 });
  });
});
