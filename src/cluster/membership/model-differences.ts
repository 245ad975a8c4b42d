import type { Membership, WorkerInfo } from "#cluster/protocol";

/** Pairs that were said; more are not remembered. */
const SAID_MAX = 256;

/**
 * Says once where two workers serve a model of the same name and are not equal: requests are
 * routed to both, but none moves from one to the other. Returns a function that ends it.
 */
export function watchDifferences(
  membership: Membership,
  warn: (message: string) => void,
): () => void {
  const said = new Set<string>();
  const compare = (info: WorkerInfo) => {
    for (const { info: other } of membership.workers.values()) {
      const difference = other.id === info.id ? null : differenceOf(info, other);
      if (difference === null || said.has(difference) || said.size >= SAID_MAX) continue;
      said.add(difference);
      warn(difference);
    }
  };
  for (const { info } of membership.workers.values()) compare(info);
  return membership.listen({
    joined: ({ info }) => compare(info),
    changed: ({ info }) => compare(info),
    left: () => {},
  });
}

/** A line about two workers of one model's name; null: they are equal, or not known to differ. */
export function differenceOf(one: WorkerInfo, other: WorkerInfo): string | null {
  const name = one.models.find((model) => other.models.includes(model));
  if (name === undefined) return null;
  if (one.fingerprint === null || other.fingerprint === null) return null;
  if (one.fingerprint === other.fingerprint) return null;
  // In one order, so that the same pair is said once.
  const [first, second] = one.id < other.id ? [one, other] : [other, one];
  const isOne = first.version === second.version;
  const versions = isOne ? "" : ` (${first.version} and ${second.version})`;
  return (
    `Workers ${first.id} and ${second.id}${versions} serve ${name} with different weights, ` +
    "arithmetic or KV format: their answers may differ, and no request moves between them"
  );
}
