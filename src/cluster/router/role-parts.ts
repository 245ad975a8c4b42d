/** Makes what changes roles: an operator's orders, and the conductor's, if it is to give some. */
import { randomUUID } from "node:crypto";
import type { Registry } from "prom-client";
import { systemClock } from "#base";
import type { FleetConductor } from "#cluster/conductor";
import { type RedisLink, RoleDesk } from "#cluster/membership";
import type { Membership } from "#cluster/protocol";
import type { Dispatcher } from "#cluster/routing";
import type { RouterConfig } from "./config.ts";
import type { DecisionBook } from "./decision-book.ts";
import { RoleBalancer } from "./role-balancer.ts";
import { RoleNews } from "./role-news.ts";
import { RoleOrders } from "./role-orders.ts";
import type { WaitingRoom } from "./waiting-room.ts";
import type { WorkerLinks } from "./worker-links.ts";

export interface RolePartsOptions {
  readonly config: RouterConfig;
  readonly conductor: FleetConductor;
  readonly membership: Membership;
  readonly dispatcher: Dispatcher;
  readonly decisions: DecisionBook;
  readonly links: WorkerLinks;
  readonly room: WaitingRoom;
  readonly registry: Registry;
  /** Null: this router is alone. */
  readonly link: RedisLink | null;
  readonly say: (message: string) => void;
}

export interface RoleParts {
  readonly roles: RoleNews;
  readonly roleOrders: RoleOrders;
  /** Null: roles are the operator's alone. */
  readonly balancer: RoleBalancer | null;
}

export function rolePartsOf(options: RolePartsOptions): RoleParts {
  const { config, membership, links } = options;
  const roles = new RoleNews({ membership, timeoutMs: config.connectTimeoutMs });
  const roleOrders = new RoleOrders({ membership, links, news: roles });
  const balancer = config.roleChanges === "off" ? null : balancerOf(options, roleOrders);
  balancer?.start();
  return { roles, roleOrders, balancer };
}

function balancerOf(options: RolePartsOptions, orders: RoleOrders): RoleBalancer {
  const { config, conductor, membership, dispatcher, registry, say } = options;
  const { links, room, decisions, link } = options;
  const { workerWaitMs, roleChangeAfterMs: lostMs, roleChangePauseMs: cooldownMs } = config;
  return new RoleBalancer({
    ...{ conductor, membership, dispatcher, registry, say, workerWaitMs },
    orders: { give: (given) => orders.give(given, { isFenced: true }) },
    desk: link === null ? null : new RoleDesk({ link, router: randomUUID() }),
    admits: (id) => links.find(id)?.breaker.admits === true,
    waiting: () => room.count,
    log: (line) => decisions.note(line),
    ...{ clock: systemClock, settings: { lostMs, cooldownMs } },
  });
}
