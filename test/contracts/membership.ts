/** What every membership promises, wherever it learns of workers. */
import { afterEach, describe, expect, test } from "vitest";
import type { Membership } from "#cluster";
import { until } from "../support/until.ts";

/** A worker that a test starts. */
export interface StartedWorker {
  /** As members know it. */
  readonly id: string;
  drain(): Promise<void>;
  leave(): Promise<void>;
  /** Without a word. */
  die(): Promise<void>;
}

/** A place where workers and a membership find each other. */
export interface MembershipWorld {
  readonly membership: Membership;
  /** Starts a worker; one of the same name that has ended starts anew. */
  start(name: "a" | "b"): Promise<StartedWorker>;
  close(): Promise<void>;
}

/** Runs the suite; `leaves`: a worker that ended is no member, rather than an unreachable one. */
export function membershipContract(
  open: () => Promise<MembershipWorld>,
  { leaves }: { readonly leaves: boolean },
): void {
  const opened: MembershipWorld[] = [];
  afterEach(async () => {
    for (const world of opened.splice(0)) await world.close();
  });

  /** The world, and what its membership told, in order. */
  async function openWatched() {
    const world = await open();
    opened.push(world);
    const told: string[] = [];
    const remove = world.membership.listen({
      joined: ({ info, state }) => told.push(`joined ${info.id} ${info.epoch} ${state}`),
      changed: ({ info, state }) => told.push(`changed ${info.id} ${state}`),
      left: (id) => told.push(`left ${id}`),
    });
    const stateOf = (id: string) => world.membership.workers.get(id)?.state ?? "gone";
    return { ...world, start: world.start.bind(world), told, remove, stateOf };
  }

  const ended = leaves ? "gone" : "unreachable";

  describe("a membership", () => {
    test("[CL40] has a worker from when it says what it is until it ends", async () => {
      const { start, stateOf, membership } = await openWatched();
      const a = await start("a");
      await until("a joins", () => stateOf(a.id) === "ready");
      const b = await start("b");
      await until("b joins", () => stateOf(b.id) === "ready");
      expect(membership.workers.get(a.id)?.info).toMatchObject({
        kind: "perigee",
        models: ["toy"],
      });
      await a.drain();
      await until("a drains", () => stateOf(a.id) === "draining");
      expect(stateOf(b.id)).toBe("ready");
      await a.leave();
      await until("a ends", () => stateOf(a.id) === ended);
      expect(stateOf(b.id)).toBe("ready");
    });

    test("[CL40] notices a worker that dies", async () => {
      const { start, stateOf } = await openWatched();
      const a = await start("a");
      const b = await start("b");
      await until("both join", () => stateOf(a.id) === "ready" && stateOf(b.id) === "ready");
      await a.die();
      await until("a ends", () => stateOf(a.id) === ended);
      expect(stateOf(b.id)).toBe("ready");
    });

    test("[CL41] tells a worker that started anew as left and joined, with a new epoch", async () => {
      const { start, stateOf, told, membership } = await openWatched();
      const first = await start("a");
      await until("it joins", () => stateOf(first.id) === "ready");
      const epoch = membership.workers.get(first.id)?.info.epoch;
      await first.die();
      const second = await start("a");
      await until("it is another", () => {
        const member = membership.workers.get(second.id);
        return member !== undefined && member.info.epoch !== epoch && member.state === "ready";
      });
      const own = told.filter((line) => /^(joined|left)/.test(line));
      expect(own.map((line) => line.split(" ")[0])).toEqual(["joined", "left", "joined"]);
      expect(own[0]).toContain(`${epoch} ready`);
    });

    test("[CL40] tells a listener nothing after it was removed, or the membership closed", async () => {
      const { start, stateOf, told, remove, membership } = await openWatched();
      const a = await start("a");
      await until("a joins", () => stateOf(a.id) === "ready");
      const count = told.length;
      remove();
      const b = await start("b");
      await until("b joins", () => stateOf(b.id) === "ready");
      expect(told).toHaveLength(count);
      const late: string[] = [];
      membership.listen({
        joined: () => late.push("joined"),
        changed: () => late.push("changed"),
        left: () => late.push("left"),
      });
      await membership.close();
      await a.die();
      await b.drain();
      expect(late).toEqual([]);
    });
  });
}
