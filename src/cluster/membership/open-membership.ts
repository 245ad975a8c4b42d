import { EngineError } from "#base";
import type { Membership } from "#cluster/protocol";
import { JoinedMembership } from "./joined-membership.ts";
import { watchDifferences } from "./model-differences.ts";
import type { ProbeAccess } from "./probe.ts";
import { RedisLink } from "./redis-link.ts";
import { RedisMembership } from "./redis-membership.ts";
import { StaticMembership } from "./static-membership.ts";

/** Where a router learns of its workers. */
export interface MembershipSources extends ProbeAccess {
  /** Null: no Redis. */
  readonly redis: string | null;
  /** Addresses of workers that are in no Redis; of other engines, too. */
  readonly workers: readonly string[];
  /** Receives a line for each trouble, and for its end. */
  readonly warn: (message: string) => void;
  /** Receives what is no trouble. */
  readonly say: (message: string) => void;
}

/**
 * All workers that Redis and a list of addresses tell of. Begins at once and never rejects later.
 * Throws INVALID_ARGUMENT for an address that is none, and where there is no source at all.
 */
export function openMembership(sources: MembershipSources): Membership {
  const { redis, workers, ...rest } = sources;
  const { warn } = rest;
  if (redis === null && workers.length === 0) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot find workers: one of worker and redis must be given, current value is neither; " +
        "give --worker URL or --redis URL",
      { param: "worker" },
    );
  }
  const parts: Membership[] = [];
  if (redis !== null)
    parts.push(new RedisMembership({ link: new RedisLink({ url: redis, warn }), warn }));
  if (workers.length > 0) {
    parts.push(new StaticMembership({ urls: workers, ...rest }));
  }
  const membership = new JoinedMembership(parts);
  watchDifferences(membership, warn);
  return membership;
}
