import type { RoutingPolicy } from "#cluster/protocol";
import type { Rng } from "./chance.ts";
import { Kv } from "./kv.ts";
import type { TrafficOutlook } from "./kv-cost.ts";
import { LeastLoaded } from "./least-loaded.ts";
import { PowerOfTwo } from "./power-of-two.ts";
import { PrefixHash } from "./prefix-hash.ts";
import { RandomChoice } from "./random-choice.ts";
import { RoundRobin } from "./round-robin.ts";
import { Session } from "./session.ts";

/** Names of the policies; the first is the default. */
export const ROUTING_POLICIES = [
  "kv",
  "round-robin",
  "random",
  "least-loaded",
  "power-of-two",
  "prefix-hash",
  "session",
] as const;

export type RoutingPolicyName = (typeof ROUTING_POLICIES)[number];

/** What policies may use beside the candidates. */
export interface PolicyParts {
  readonly rng: Rng;
  /** Read at each choice. */
  readonly outlook: () => TrafficOutlook;
}

export function createPolicy(
  name: RoutingPolicyName,
  { rng, outlook }: PolicyParts,
): RoutingPolicy {
  switch (name) {
    case "kv":
      return new Kv(rng, outlook);
    case "round-robin":
      return new RoundRobin();
    case "random":
      return new RandomChoice(rng);
    case "least-loaded":
      return new LeastLoaded(rng);
    case "power-of-two":
      return new PowerOfTwo(rng);
    case "prefix-hash":
      return new PrefixHash();
    case "session":
      return new Session(rng);
  }
}
