import { expect, test } from "vitest";
import { differenceOf, JoinedMembership, LocalBus, watchDifferences } from "#cluster";
import { workerInfo } from "../../support/worker-info.ts";

/** Two sources, joined, and what the joined one tells. */
function joinTwo() {
  const [first, second] = [new LocalBus(), new LocalBus()];
  const joined = new JoinedMembership([first.membership(), second.membership()]);
  const told: string[] = [];
  joined.listen({
    joined: ({ info }) => told.push(`joined ${info.id}`),
    changed: ({ info, state }) => told.push(`${info.id} is ${state}`),
    left: (id, reason) => told.push(`left ${id}: ${reason}`),
  });
  return { first, second, joined, told };
}

test("[CL47] a worker of two sources is one, and stays while either knows it", async () => {
  const { first, second, joined, told } = joinTwo();
  const byAddress = second.announce(workerInfo({ id: "http://10.0.0.7:8000", epoch: "e" }));
  const byName = first.announce(workerInfo({ id: "seven", epoch: "e" }));
  expect([...joined.workers.keys()]).toEqual(["seven"]);
  await byName.leave();
  expect([...joined.workers.keys()]).toEqual(["http://10.0.0.7:8000"]);
  await byAddress.leave();
  expect(joined.workers.size).toBe(0);
  expect(told).toEqual([
    "joined http://10.0.0.7:8000",
    "left http://10.0.0.7:8000: it is known by another address",
    "joined seven",
    "left seven: it left",
    "joined http://10.0.0.7:8000",
    "left http://10.0.0.7:8000: it left",
  ]);
});

test("[CL47] foreign workers of equal made-up epochs are two", () => {
  const { first, joined } = joinTwo();
  first.announce(workerInfo({ id: "a", epoch: "1", kind: "vllm" }));
  first.announce(workerInfo({ id: "b", epoch: "1", kind: "vllm" }));
  expect(joined.workers.size).toBe(2);
});

test("[CL51] workers of one name that are not equal are said once a pair", () => {
  const bus = new LocalBus();
  const lines: string[] = [];
  const end = watchDifferences(bus.membership(), (line) => lines.push(line));
  bus.announce(workerInfo({ id: "a", fingerprint: "1" }));
  bus.announce(workerInfo({ id: "b", fingerprint: "2", version: "0.2.0" }));
  bus.announce(workerInfo({ id: "b", fingerprint: "2", version: "0.2.0", epoch: "2" }));
  bus.announce(workerInfo({ id: "c", fingerprint: "3", models: ["another"] }));
  end();
  bus.announce(workerInfo({ id: "d", fingerprint: "4" }));
  expect(lines).toEqual([
    "Workers a and b (0.1.0 and 0.2.0) serve toy with different weights, arithmetic or KV " +
      "format: their answers may differ, and no request moves between them",
  ]);
});

test("[CL51] nothing is said of workers that do not tell", () => {
  const told = workerInfo({ id: "a", fingerprint: "1" });
  expect(differenceOf(told, workerInfo({ id: "b", fingerprint: null }))).toBeNull();
  expect(differenceOf(told, workerInfo({ id: "b", fingerprint: "1" }))).toBeNull();
});
