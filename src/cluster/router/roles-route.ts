/** `/route/roles`: roles of workers, and why some were changed; an operator gives others. */
import type { FastifyInstance } from "fastify";
import { EngineError, isPlainObject, shortText } from "#base";
import type { WorkerRole } from "#cluster/protocol";
import { HttpError, httpFailure, isLoopback } from "#server";
import type { RouterContext } from "./context.ts";
import type { RoleBalancer } from "./role-balancer.ts";

const ROLES: readonly WorkerRole[] = ["prefill", "decode", "both", "kv"];
const WORKERS_MAX = 256;

export function rolesRoute(app: FastifyInstance, context: RouterContext): void {
  app.get("/route/roles", async () => rolesJson(context));
  app.post("/route/roles", async (request, reply) => {
    checkAccess(context);
    const { roles, errors } = await context.roleOrders.give(readOrders(request.body));
    const given = [...roles].map(([id, { role, roleEpoch }]) => [
      id,
      { role, role_epoch: roleEpoch },
    ]);
    for (const [id, { role }] of roles)
      context.log().info(`worker ${id} was given the role ${role}`);
    const failures = [...errors].map(([id, error]) => [id, httpFailure(error)] as const);
    const [first] = failures;
    return reply.code(first?.[1].status ?? 200).send({
      // As every failure of this server is told; what was set is set all the same.
      ...(first === undefined ? {} : first[1].body),
      roles: Object.fromEntries(given),
      errors: Object.fromEntries(failures.map(([id, { body }]) => [id, body.error])),
    });
  });
}

/** Every worker's role; with --role-changes auto what the conductor sees of it, too. */
function rolesJson({ membership, balancer }: RouterContext): object {
  const roles = [...membership.workers.values()].map(({ info }) => {
    const { id, role = "both", roleEpoch, rolePinned = false } = info;
    return [id, { role, role_epoch: roleEpoch ?? null, pinned: rolePinned }];
  });
  const auto = balancer === null ? { role_changes: "off" } : autoJson(balancer.shown);
  return { roles: Object.fromEntries(roles), ...auto };
}

function autoJson({ decides, groups, changes }: RoleBalancer["shown"]): object {
  return {
    ...{ role_changes: "auto", decides },
    groups: groups.map(({ needs, lostMs, members }) => ({
      needs: needs === null ? null : { prefill: needs.prefill, decode: needs.decode },
      lost_ms: lostMs,
      workers: Object.fromEntries(
        members.map(({ id, drainMs, mayChange }) => [
          id,
          { drain_ms: drainMs, may_change: mayChange },
        ]),
      ),
    })),
    changes,
  };
}

/** Other roles move the fleet's work: not everyone who reaches the router may give them. */
function checkAccess({ config }: RouterContext): void {
  if (config.apiKey.length > 0 || isLoopback(config.host)) return;
  throw new HttpError(
    403,
    "forbidden",
    "Cannot change roles: a router that others reach must have an API key, current value is " +
      "none; start it with --api-key-file",
  );
}

/** Throws INVALID_ARGUMENT for what is no list of roles. */
function readOrders(body: unknown): ReadonlyMap<string, WorkerRole> {
  const wanted = 'an object such as {"roles": {"WORKER_ID": "decode"}}';
  if (!isPlainObject(body)) throw wrong("body", wanted);
  const other = Object.keys(body).find((name) => name !== "roles");
  if (other !== undefined) throw wrong(shortText(other), "left out: roles alone is read");
  if (!isPlainObject(body.roles)) throw wrong("roles", wanted);
  const given = Object.entries(body.roles);
  if (given.length === 0 || given.length > WORKERS_MAX) {
    throw wrong("roles", `1 to ${WORKERS_MAX} workers, current value is ${given.length}`);
  }
  return new Map(
    given.map(([id, value]) => {
      const role = ROLES.find((known) => known === value);
      if (role === undefined) throw wrong(`roles.${shortText(id)}`, `one of ${ROLES.join(", ")}`);
      return [id, role];
    }),
  );
}

function wrong(param: string, wanted: string): EngineError {
  const message = `Cannot change roles: ${param} must be ${wanted}`;
  return new EngineError("INVALID_ARGUMENT", message, { param });
}
