import type { FastifyRequest } from "fastify";
import { keysOf } from "#server";
import type { RouterContext } from "./context.ts";

/** Keys that were not checked are none: a client could make up as many as it likes. */
export function keyOf(
  { config }: Pick<RouterContext, "config">,
  { headers }: FastifyRequest,
): string {
  if (config.apiKey.length === 0) return "";
  return keysOf(headers).find((key) => config.apiKey.includes(key)) ?? "";
}
