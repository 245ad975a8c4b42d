import type { FastifyRequest } from "fastify";
import type { RouterContext } from "./context.ts";

/** Keys that were not checked are none: a client could make up as many as it likes. */
export function keyOf(
  { config }: Pick<RouterContext, "config">,
  { headers }: FastifyRequest,
): string {
  return config.apiKey.length === 0
    ? ""
    : (headers.authorization ?? "").slice("bearer ".length).trim();
}
