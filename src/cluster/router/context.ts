import { randomBytes } from "node:crypto";
import type { FastifyBaseLogger, FastifyRequest } from "fastify";
import type { Registry } from "prom-client";
import type { FleetConductor } from "#cluster/conductor";
import type { HitCeiling } from "#cluster/index";
import type { Membership } from "#cluster/protocol";
import type { Dispatcher } from "#cluster/routing";
import type { BodyBudget } from "./body-budget.ts";
import type { RouterConfig } from "./config.ts";
import type { DecisionBook } from "./decision-book.ts";
import type { FleetCaches } from "./fleet-caches.ts";
import type { HitWatch } from "./hit-watch.ts";
import type { ModelCodecs } from "./model-codecs.ts";
import type { PromptReader } from "./prompt-reader.ts";
import type { Relay } from "./relay.ts";
import type { RelayTools } from "./relay-order.ts";
import type { RoleBalancer } from "./role-balancer.ts";
import type { RoleOrders } from "./role-orders.ts";
import type { WorkerLinks } from "./worker-links.ts";

/** What all routes of the router share. */
export interface RouterContext {
  readonly config: RouterConfig;
  readonly version: string;
  readonly membership: Membership;
  readonly links: WorkerLinks;
  readonly dispatcher: Dispatcher;
  readonly conductor: FleetConductor;
  readonly decisions: DecisionBook;
  readonly prompts: PromptReader;
  readonly codecs: ModelCodecs;
  readonly caches: FleetCaches;
  readonly ceiling: HitCeiling;
  readonly hits: HitWatch;
  readonly tools: RelayTools;
  readonly roleOrders: RoleOrders;
  /** Null: roles are the operator's alone. */
  readonly balancer: RoleBalancer | null;
  /** Requests in work. */
  readonly relays: Set<Relay>;
  readonly registry: Registry;
  readonly bodies: BodyBudget;
  /** `cutOff`: requests in work were ended, since the time of the shutdown was over. */
  readonly state: { draining: boolean; cutOff: boolean };
  /** JSON texts of bodies as they came. */
  readonly texts: WeakMap<FastifyRequest, string>;
  readonly log: () => FastifyBaseLogger;
}

/** A seed that JSON carries exactly. */
export function freshSeed(): number {
  return Number(randomBytes(8).readBigUInt64LE() >> 11n);
}
