/** Of two roles of a worker the later one holds. */
import { expect, test } from "vitest";
import type { WorkerInfo } from "#cluster";
import { MemberBook } from "../../../src/cluster/membership/member-book.ts";
import {
  readToldRole,
  readWorkerInfo,
} from "../../../src/cluster/membership/worker-info-reader.ts";
import { candidateOf } from "../../contracts/routing-policy.ts";

const info: WorkerInfo = { ...candidateOf({ id: "a" }).info, epoch: "1", role: "decode" };

test("[CL213] what was announced earlier and comes later sets no role back", () => {
  const book = new MemberBook();
  const told: unknown[] = [];
  const now = () => book.workers.get("a")?.info;
  book.listen({
    joined: () => told.push("joined"),
    changed: (member) => told.push(member.info.role),
    left: () => told.push("left"),
  });
  book.put({ info: { ...info, roleEpoch: 0 }, state: "ready" });
  book.learnRole("a", { epoch: "1", role: "prefill", roleEpoch: 2 });
  expect(now()).toMatchObject({ role: "prefill", roleEpoch: 2 });
  // A record that was written before, a word of an earlier start, and one of a stranger.
  book.put({ info: { ...info, roleEpoch: 1 }, state: "ready" });
  book.put({ info, state: "ready" });
  book.learnRole("a", { epoch: "0", role: "both", roleEpoch: 9 });
  book.learnRole("a", { epoch: "1", role: "both", roleEpoch: 2 });
  book.learnRole("b", { epoch: "1", role: "both", roleEpoch: 9 });
  expect(now()).toMatchObject({ role: "prefill", roleEpoch: 2 });
  expect(told).toEqual(["joined", "prefill"]);
  // What else an old record says counts.
  book.put({ info, state: "draining" });
  expect(book.workers.get("a")).toMatchObject({ state: "draining", info: { roleEpoch: 2 } });
  book.put({ info: { ...info, roleEpoch: 3 }, state: "ready" });
  expect(now()).toMatchObject({ role: "decode", roleEpoch: 3 });
  // Another start begins anew.
  book.put({ info: { ...info, epoch: "2", roleEpoch: 0 }, state: "ready" });
  expect(now()).toMatchObject({ epoch: "2", role: "decode", roleEpoch: 0 });
});

test("[CL213] roles and epochs of workers are read with care", () => {
  const right = { ...info, kv: null, contextTokensMax: 1 };
  expect(readWorkerInfo({ ...right, roleEpoch: 4 }).roleEpoch).toBe(4);
  expect(readWorkerInfo(right).roleEpoch).toBeUndefined();
  for (const roleEpoch of [-1, 1.5, "1", {}, [], true, 1e99, Number.NaN]) {
    expect(() => readWorkerInfo({ ...right, roleEpoch })).toThrow(/roleEpoch/);
  }
  expect(readToldRole({ epoch: "e", role: "both", role_epoch: 1, id: "x" })).toEqual({
    ...{ epoch: "e", role: "both", roleEpoch: 1 },
  });
  for (const wrong of [null, [], {}, "both", { epoch: "e", role: "x", role_epoch: 1 }]) {
    expect(() => readToldRole(wrong)).toThrow(/Cannot read a worker/);
  }
});
