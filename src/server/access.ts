/** Access control: API keys, and web origins for browsers. */
import { createHash, timingSafeEqual } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { EngineError } from "#base";
import { ASSET_ROUTE } from "./dashboard/page-routes.ts";
import { PROBE_PATHS } from "./request-log.ts";

/** Paths without data of prompts: for load balancers, scrapers, and a page that asks for a key. */
const OPEN_PATHS: ReadonlySet<string> = new Set(["/", ASSET_ROUTE, ...PROBE_PATHS]);
const PREFLIGHT_SECONDS = 600;

/** Requires one of the keys, except on open paths. Without keys, all requests are accepted. */
export function requireApiKey(app: FastifyInstance, apiKeys: readonly string[]): void {
  if (apiKeys.length === 0) return;
  const digests = apiKeys.map(digest);
  app.addHook("onRequest", async (request) => {
    if (OPEN_PATHS.has(request.routeOptions.url ?? "") || request.method === "OPTIONS") return;
    const given = digest(bearerToken(request));
    // All keys are compared, each in constant time: neither content nor index of a key leaks.
    const matches = digests.filter((expected) => timingSafeEqual(expected, given)).length;
    if (matches === 0) {
      throw new EngineError(
        "UNAUTHORIZED",
        "Cannot accept request: a valid API key is needed; send `Authorization: Bearer KEY`",
      );
    }
  });
}

/** Whether a request has one of the keys; each is compared in constant time. */
export function holdsKey(request: FastifyRequest, keys: readonly string[]): boolean {
  const given = digest(bearerToken(request));
  return keys.filter((key) => timingSafeEqual(digest(key), given)).length > 0;
}

/** Whether nothing but this machine reaches a server that listens at `host`. */
export function isLoopback(host: string): boolean {
  return ["127.0.0.1", "::1", "localhost"].includes(host);
}

/** Allows browser requests from the given origins; answers preflight requests. */
export function allowOrigins(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  const all = origins.includes("*");
  app.addHook("onRequest", async (request, reply) => {
    const origin = request.headers.origin;
    if (origin === undefined || !(all || origins.includes(origin))) return;
    reply.header("access-control-allow-origin", all ? "*" : origin).header("vary", "origin");
    if (isPreflight(request)) await answerPreflight(request, reply);
  });
}

function isPreflight(request: FastifyRequest): boolean {
  const asked = request.headers["access-control-request-method"];
  return request.method === "OPTIONS" && asked !== undefined;
}

function answerPreflight(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const headers = request.headers["access-control-request-headers"];
  return reply
    .code(204)
    .header("access-control-allow-methods", "GET, POST, DELETE, OPTIONS")
    .header("access-control-allow-headers", headers ?? "authorization, content-type")
    .header("access-control-max-age", PREFLIGHT_SECONDS)
    .send();
}

function bearerToken(request: FastifyRequest): string {
  const header = request.headers.authorization ?? "";
  return /^bearer /i.test(header) ? header.slice("bearer ".length).trim() : "";
}

function digest(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}
