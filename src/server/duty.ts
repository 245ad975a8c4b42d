/** What a server does in its fleet, and since which change: a number that all threads share. */
import { assert, EngineError, isPlainObject } from "#base";

/**
 * prefill: computes prompts for others, and whole requests where no other can · decode: gets
 * requests, whose prompts others compute · both: computes its own prompts · kv: holds keys and
 * values for others, without weights, from its start to its end.
 */
export type WorkerRole = (typeof WORKER_ROLES)[number];

export const WORKER_ROLES = ["both", "prefill", "decode", "kv"] as const;

/** A role, and how often it has changed since the start of the process. */
export interface Duty {
  readonly role: WorkerRole;
  readonly roleEpoch: number;
}

const ROLE_BITS = 2;
const EPOCH_MAX = 2 ** (31 - ROLE_BITS) - 1;

export function dutyOf(number: number): Duty {
  const role = WORKER_ROLES[number & (2 ** ROLE_BITS - 1)] ?? "both";
  return { role, roleEpoch: number >> ROLE_BITS };
}

/** Pairs with `dutyOf`. */
export function numberOf({ role, roleEpoch }: Duty): number {
  assert(roleEpoch <= EPOCH_MAX, "A role changes less often than there are numbers");
  return (roleEpoch << ROLE_BITS) | WORKER_ROLES.indexOf(role);
}

/**
 * The request was routed by what the worker did before: it is routed again, and nothing of it is
 * computed. What is no number is left to the body's schema.
 */
export function checkDuty(body: unknown, { role, roleEpoch }: Duty): void {
  const own = isPlainObject(body) && isPlainObject(body.perigee) ? body.perigee.role_epoch : null;
  if (typeof own !== "number" || own >= roleEpoch) return;
  throw new EngineError(
    "ROLE_CHANGED",
    `Cannot accept request: perigee.role_epoch must be ${roleEpoch} (role ${role}), current ` +
      `value is ${own}; read /worker_info and route it again`,
    { param: "perigee.role_epoch" },
  );
}
