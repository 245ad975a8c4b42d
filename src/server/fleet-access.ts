/** Who may change what a worker does for its fleet: not every client. */
import type { FastifyRequest } from "fastify";
import { holdsKey, isLoopback } from "./access.ts";
import type { ServerContext } from "./context.ts";
import { HttpError } from "./http-errors.ts";

/**
 * Throws 403 unless the request has one of the fleet's secrets; without any, unless the server has
 * API keys or is reached from this machine alone. `action`: what is refused.
 */
export function checkFleetAccess(
  request: FastifyRequest,
  { config }: Pick<ServerContext, "config">,
  { secrets, action }: { readonly secrets: readonly string[]; readonly action: string },
): void {
  if (secrets.length > 0) {
    if (holdsKey(request, secrets)) return;
    throw new HttpError(
      403,
      "forbidden",
      `Cannot ${action}: the fleet's secret must be given, current value is another key; send ` +
        "a line of --cluster-secret-file as `Authorization: Bearer SECRET`",
    );
  }
  if (config.apiKey.length > 0 || isLoopback(config.host)) return;
  throw new HttpError(
    403,
    "forbidden",
    `Cannot ${action}: a server that others reach must have a secret, current value is none; ` +
      "start it with --cluster-secret-file",
  );
}
