/** `POST /worker_role`: what a worker does in its fleet changes while it runs. */
import type { FastifyInstance } from "fastify";
import { EngineError } from "#base";
import type { ServerContext } from "./context.ts";
import type { WorkerRole } from "./duty.ts";
import { checkFleetAccess } from "./fleet-access.ts";
import { parseRequest } from "./openai/parse-request.ts";
import { RoleRequest } from "./openai/role-request.ts";
import type { WorkerIdentity } from "./worker-info.ts";

/** Whose role it is, and who may change it. */
export interface RoleHolder {
  readonly identity: WorkerIdentity;
  /** None: who may use the server. */
  readonly fleetSecrets: readonly string[];
  readonly onChange: () => void;
}

/**
 * Requests that run end where they are. Later ones that were routed by the former role get 409
 * (duty.ts). The answer has the role as it is then, and its epoch.
 */
export function workerRoleRoute(
  app: FastifyInstance,
  context: ServerContext,
  { identity, fleetSecrets, onChange }: RoleHolder,
): void {
  const { admission } = context;
  app.post("/worker_role", async (request) => {
    // Another role moves the fleet's work.
    checkFleetAccess(request, context, { secrets: fleetSecrets, action: "change role" });
    const { role, role_epoch: epoch } = parseRequest(RoleRequest, request.body);
    const { duty } = admission;
    checkMemory(duty.role, role);
    if (epoch != null && epoch !== duty.roleEpoch) throw changedMeanwhile(epoch, duty.roleEpoch);
    checkRole(context, role);
    if (role !== duty.role) {
      admission.duty = { role, roleEpoch: duty.roleEpoch + 1 };
      app.log.info(`the role is ${role} now, it was ${duty.role}`);
      onChange();
    }
    const now = admission.duty;
    return { id: identity.id, epoch: identity.epoch, role: now.role, role_epoch: now.roleEpoch };
  });
}

/** Whether it has weights is decided when it starts. */
function checkMemory(current: WorkerRole, role: WorkerRole): void {
  if ((current === "kv") === (role === "kv")) return;
  const why =
    current === "kv"
      ? "the worker must have weights, with role kv it has none"
      : "the worker must give memory alone, it has weights";
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot change role from ${current} to ${role}: ${why}; start another one with --role ${role}`,
    { param: "role" },
  );
}

function checkRole({ model, admission }: ServerContext, role: WorkerRole): void {
  if (admission.draining) {
    throw new EngineError("SHUTTING_DOWN", "Cannot change role: the server is shutting down");
  }
  if (role === "both" || model.info.kvAddress !== null) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot change role to ${role}: the worker must give keys and values to others, it does not; ` +
      "start it with kvTransfer (--kv-transfer)",
    { param: "role" },
  );
}

function changedMeanwhile(given: number, current: number): EngineError {
  return new EngineError(
    "ROLE_CHANGED",
    `Cannot change role: role_epoch must be ${current}, current value is ${given}; read ` +
      "/worker_info and decide again",
    { param: "role_epoch" },
  );
}
