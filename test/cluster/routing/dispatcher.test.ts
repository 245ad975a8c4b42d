import { describe, expect, test } from "vitest";
import {
  Dispatcher,
  type DispatchRequest,
  FleetIndex,
  HitCeiling,
  IndexedPrefixes,
  type Member,
  type Membership,
  type MembershipListener,
  type RoutingPolicyName,
  type ServedPrompt,
  seededRng,
  type WorkerInfo,
} from "#cluster";
import { SimClock } from "#simulator";
import { candidateOf } from "../../contracts/routing-policy.ts";

class HandMembers implements Membership {
  readonly workers = new Map<string, Member>();
  heardMs: number | null = 0;
  readonly #listeners = new Set<MembershipListener>();

  listen(listener: MembershipListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  set(id: string, state: Member["state"] = "ready", info: Partial<WorkerInfo> = {}): void {
    const isNew = !this.workers.has(id);
    const member = { info: { ...candidateOf({ id }).info, ...info }, state };
    this.workers.set(id, member);
    for (const each of this.#listeners) isNew ? each.joined(member) : each.changed(member);
  }

  leave(id: string): void {
    this.workers.delete(id);
    for (const each of this.#listeners) each.left(id, "gone");
  }

  learnRole(): void {}

  async close(): Promise<void> {}
}

function start(
  policy: RoutingPolicyName = "kv",
  closed: ReadonlySet<string> = new Set(),
  startingMs = 0,
) {
  const clock = new SimClock();
  const membership = new HandMembers();
  for (const id of ["a", "b", "c"]) membership.set(id);
  const index = new FleetIndex({ clock });
  const numbers = new Map(["a", "b", "c"].map((id) => [id, index.join({ announces: true })]));
  const ceiling = new HitCeiling();
  const served: ServedPrompt[] = [];
  const prefixes = new IndexedPrefixes({
    clock,
    placeOf: ({ id }) => {
      const number = numbers.get(id);
      if (number === undefined) return null;
      return { lookup: index, number, model: "m", blockTokens: 16, announces: true };
    },
    ledger: {
      expect: (prompt, announces) => ceiling.expect(prompt, announces),
      record: (each) => {
        served.push(each);
        ceiling.record(each);
      },
    },
  });
  const dispatcher = new Dispatcher({
    ...{ membership, prefixes, policy, clock, rng: seededRng(1), startingMs },
    isOpen: (id) => !closed.has(id),
  });
  return { clock, membership, dispatcher, prefixes, ceiling, served };
}

function requestOf(first: number, given: Partial<DispatchRequest> = {}): DispatchRequest {
  const tokens = Uint32Array.from({ length: 1601 }, (_, at) => first * 10_000 + at);
  return {
    ...{ promptTokens: tokens.length, outputTokens: null, session: null, prefixHash: [first, 0] },
    ...{ tokens, salt: null, lora: null, model: "m", excluded: new Set<string>() },
    ...given,
  };
}

function routed(dispatcher: Dispatcher, request: DispatchRequest) {
  const found = dispatcher.route(request);
  if (found.type === "unrouted") throw new Error(found.reason);
  return found;
}

describe("who may be chosen", () => {
  test("[CL60] not those that drain, failed the request, are broken or serve another model", () => {
    const { dispatcher, membership } = start("round-robin", new Set(["b"]));
    membership.set("a", "draining");
    const excluded = new Set(["c"]);
    expect(routed(dispatcher, requestOf(1)).worker.id).toBe("c");
    const none = dispatcher.route(requestOf(1, { excluded }));
    expect(none).toEqual({ type: "unrouted", reason: "excluded" });
    expect(dispatcher.route(requestOf(1, { model: "x" }))).toMatchObject({ reason: "model" });
    for (const id of ["a", "b", "c"]) membership.set(id, "unreachable");
    expect(dispatcher.route(requestOf(1))).toMatchObject({ reason: "gone" });
  });

  test("[CL60] nor those whose context is too short, while one has room", () => {
    const { dispatcher, membership } = start("round-robin");
    membership.set("a", "ready", { contextTokensMax: 1000 });
    membership.set("b", "ready", { contextTokensMax: 1000 });
    const ids = [1, 2, 3].map((turn) => routed(dispatcher, requestOf(turn)).worker.id);
    expect(ids).toEqual(["c", "c", "c"]);
    membership.set("c", "ready", { contextTokensMax: 1000 });
    expect(routed(dispatcher, requestOf(4)).type).toBe("routed");
  });
});

describe("prompts on their way", () => {
  test("[CL69] count until they are computed and announced, or dropped", () => {
    const { clock, dispatcher, prefixes } = start();
    const first = routed(dispatcher, requestOf(1));
    expect(first.promisedTokens).toBe(0);
    const second = routed(dispatcher, requestOf(1));
    expect([second.worker.id, second.promisedTokens]).toEqual([first.worker.id, 1600]);
    second.reservation.end("cancelled");
    first.reservation.firstToken();
    clock.run(1999);
    expect(routed(dispatcher, requestOf(1)).bestTokens).toBe(1600);
    const other = routed(dispatcher, requestOf(2));
    other.reservation.end("failed");
    expect(routed(dispatcher, requestOf(2)).bestTokens).toBe(0);
    expect(prefixes.inFlight.blockCount).toBeGreaterThan(0);
  });

  test("[CL69] nothing stays of requests that ended", () => {
    const { clock, dispatcher, prefixes } = start();
    const rng = seededRng(3);
    for (let turn = 0; turn < 300; turn++) {
      const { reservation } = routed(dispatcher, requestOf(turn % 20));
      if (rng.next() < 0.7) reservation.tokens(1 + Math.floor(rng.next() * 50));
      reservation.end(rng.next() < 0.5 ? "ended" : "failed");
      clock.run(clock.nowMs() + 20);
    }
    clock.run(clock.nowMs() + 2001);
    routed(dispatcher, requestOf(99)).reservation.end("failed");
    expect(prefixes.inFlight.blockCount).toBe(0);
    expect(dispatcher.books.openCount).toBe(0);
  });
});

test("[CL62] a worker that leaves takes its load with it", () => {
  const { dispatcher, membership } = start();
  const { worker, reservation } = routed(dispatcher, requestOf(1));
  membership.leave(worker.id);
  expect(reservation.phase).toBe("over");
  membership.set(worker.id, "ready", { epoch: "2" });
  expect(dispatcher.books.viewOf(worker.id, null).requests).toBe(0);
});

test("[CL64] an explanation has each worker's terms, and books nothing", () => {
  const { dispatcher, membership } = start();
  routed(dispatcher, requestOf(1));
  membership.set("d", "draining");
  const { choice, workers, policy } = dispatcher.explain(requestOf(1));
  expect(policy).toBe("kv");
  expect(choice?.reason).toBe("prefix");
  expect(dispatcher.books.openCount).toBe(1);
  expect(workers.map(({ leftOut }) => leftOut)).toEqual([null, null, null, "gone"]);
  for (const { cost } of workers.slice(0, 3)) {
    const sum = Object.values(cost?.terms ?? {}).reduce((total, ms) => total + ms, 0);
    expect(cost?.cost).toBeCloseTo(sum, 6);
  }
});

test("[CL69] hits are compared with what was known when the request was routed", () => {
  const { dispatcher, served, ceiling } = start();
  const first = routed(dispatcher, requestOf(1));
  const second = routed(dispatcher, requestOf(1));
  first.served(0);
  second.served(1000);
  expect(served.map(({ before }) => before.length)).toEqual([0, 100]);
  expect(ceiling.stats()).toMatchObject({ requests: 2, hitTokens: 1000, ceilingTokens: 1600 });
  expect(ceiling.stats().lost.stale).toBe(38 * 16);
});

describe("models", () => {
  test("[CL131] one that was served lately is away, one that never was is unknown", () => {
    const { dispatcher, membership, clock } = start();
    const reasonOf = (model: string) => {
      const found = dispatcher.route(requestOf(1, { model }));
      return found.type === "unrouted" ? found.reason : "routed";
    };
    expect([reasonOf("m"), reasonOf("x")]).toEqual(["routed", "model"]);
    membership.set("d", "ready", { models: ["other"] });
    for (const id of ["a", "b", "c"]) membership.leave(id);
    expect([reasonOf("m"), reasonOf("x")]).toEqual(["gone", "model"]);
    clock.after(600_000, () => {});
    clock.run();
    expect(reasonOf("m")).toBe("model");
    membership.leave("d");
    expect(reasonOf("x")).toBe("gone"); // no worker is known: any may come
  });

  test("[CL191] workers are awaited from when they were first told of, however late", () => {
    const { dispatcher, membership, clock } = start("kv", new Set(), 10_000);
    const wait = (ms: number) => {
      clock.after(ms, () => {});
      clock.run();
    };
    const [known, strange] = [requestOf(1), requestOf(1, { model: "x" })];
    for (const id of ["a", "b", "c"]) membership.leave(id);
    membership.heardMs = null;
    wait(60_000);
    expect(dispatcher.awaited(known)).toBe("members");
    expect(dispatcher.isFull(known)).toBe(true);
    membership.heardMs = clock.nowMs();
    membership.set("d", "ready", { models: ["other"] });
    wait(9_999);
    expect([dispatcher.awaited(known), dispatcher.awaited(strange)]).toEqual([
      "members",
      "members",
    ]);
    expect(dispatcher.route(strange)).toEqual({ type: "unrouted", reason: "gone" });
    wait(1);
    expect([dispatcher.awaited(known), dispatcher.isFull(known)]).toEqual([null, false]);
    expect(dispatcher.route(strange)).toEqual({ type: "unrouted", reason: "model" });
  });

  test("[CL191] one that drains is not all that may come, one that failed a request is", () => {
    const { dispatcher, membership } = start("kv", new Set(), 10_000);
    membership.heardMs = null;
    for (const id of ["b", "c"]) membership.leave(id);
    expect(dispatcher.awaited(requestOf(1, { excluded: new Set(["a"]) }))).toBeNull();
    membership.set("a", "draining");
    expect(dispatcher.awaited(requestOf(1))).toBe("members");
  });
});
