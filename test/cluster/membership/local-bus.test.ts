import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { LocalBus } from "#cluster";
import { membershipContract } from "../../contracts/membership.ts";
import { workerInfo } from "../../support/worker-info.ts";

membershipContract(
  async () => {
    const bus = new LocalBus();
    const membership = bus.membership();
    return {
      membership,
      start: async (name) => {
        const announcer = bus.announce(workerInfo({ id: name, epoch: randomUUID() }));
        const { drain, leave } = announcer;
        return { id: name, drain, leave, die: leave };
      },
      close: () => membership.close(),
    };
  },
  { leaves: true },
);

test("[CL41] a worker that was replaced ends without its successor", async () => {
  const bus = new LocalBus();
  const first = bus.announce(workerInfo({ epoch: "1" }));
  bus.announce(workerInfo({ epoch: "2" }));
  const membership = bus.membership();
  await first.drain();
  await first.leave();
  const [member] = membership.workers.values();
  expect(member).toMatchObject({ state: "ready", info: { epoch: "2" } });
});
