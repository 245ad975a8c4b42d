/** Orders of the conductor, to a worker that was given another role meanwhile. */
import { expect, test } from "vitest";
import { RoleNews } from "../../../src/cluster/router/role-news.ts";
import { workerInfo } from "../../support/worker-info.ts";

interface Handlers {
  onHead(status: number, headers: object): void;
  onData(part: Buffer): void;
  onEnd(): void;
}

/** A worker whose role has changed since it was heard: orders by the former epoch get 409. */
function changedWorker() {
  const info = workerInfo({ role: "decode", roleEpoch: 1 });
  const member = { info, state: "ready" };
  const orders: { role: string; role_epoch?: number }[] = [];
  const answerTo = (path: string, body: string | null) => {
    if (path === "/worker_info") return [200, { ...info, role: "both", roleEpoch: 2 }] as const;
    const order = JSON.parse(body ?? "{}") as { role: string; role_epoch?: number };
    orders.push(order);
    if (order.role_epoch !== 2) return [409, { error: { code: "role_changed" } }] as const;
    return [200, { epoch: info.epoch, role: order.role, role_epoch: 3 }] as const;
  };
  const upstream = {
    send: (asked: { path: string; body: string | null }, handlers: Handlers) => {
      const [status, answer] = answerTo(asked.path, asked.body);
      setImmediate(() => {
        handlers.onHead(status, {});
        handlers.onData(Buffer.from(JSON.stringify(answer)));
        handlers.onEnd();
      });
      return { abort: () => {} };
    },
  };
  const link = {
    get info() {
      return member.info;
    },
    ...{ headers: {}, upstream },
  };
  const membership = {
    workers: new Map([[info.id, member]]),
    learnRole: (_: string, { role, roleEpoch }: { role: "both"; roleEpoch: number }) => {
      member.info = { ...member.info, role, roleEpoch };
    },
  };
  const news = new RoleNews({ membership: membership as never, timeoutMs: 1000 });
  return { news, link: link as never, orders, member };
}

test("[CL249] a fenced order leaves a worker that was changed meanwhile as it is", async () => {
  const { news, link, orders, member } = changedWorker();
  await expect(news.change(link, "prefill", true)).rejects.toThrow(/Cannot change role: worker/);
  expect(orders).toEqual([{ role: "prefill", role_epoch: 1 }]);
  // What it is now is known: the next look decides by that.
  expect(member.info).toMatchObject({ role: "both", roleEpoch: 2 });
});

test("[CL249] an operator's order is given again, to what it is now", async () => {
  const { news, link, orders } = changedWorker();
  expect(await news.change(link, "prefill")).toMatchObject({ role: "prefill", roleEpoch: 3 });
  expect(orders.map((order) => order.role_epoch)).toEqual([1, 2]);
});
