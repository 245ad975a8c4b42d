/** Access control: API keys, and web origins for browsers. */
import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { EngineError } from "#base";
import { ASSET_ROUTE } from "./dashboard/page-routes.ts";
import { PROBE_PATHS } from "./request-log.ts";

/** Paths without data of prompts: for load balancers, scrapers, readers, a page that asks a key. */
export const OPEN_PATHS: ReadonlySet<string> = new Set([
  ...["/", ASSET_ROUTE, "/docs", "/openapi.json"],
  ...PROBE_PATHS,
]);
const PREFLIGHT_SECONDS = 600;

/** Requires one of the keys, except on open paths. Without keys, all requests are accepted. */
export function requireApiKey(app: FastifyInstance, apiKeys: readonly string[]): void {
  if (apiKeys.length === 0) return;
  const digests = apiKeys.map(digest);
  app.addHook("onRequest", async (request) => {
    if (OPEN_PATHS.has(request.routeOptions.url ?? "") || request.method === "OPTIONS") return;
    // All keys are compared, each in constant time: neither content nor index of a key leaks.
    const matches = keysOf(request.headers)
      .map(digest)
      .flatMap((given) => digests.filter((expected) => timingSafeEqual(expected, given)));
    if (matches.length === 0) {
      throw new EngineError(
        "UNAUTHORIZED",
        "Cannot accept request: a valid API key is needed; send `Authorization: Bearer KEY`, " +
          "or `x-api-key: KEY`",
      );
    }
  });
}

/** Whether a request has one of the keys; each is compared in constant time. */
export function holdsKey(request: FastifyRequest, keys: readonly string[]): boolean {
  const given = keysOf(request.headers).map(digest);
  const found = given.flatMap((one) => keys.filter((key) => timingSafeEqual(digest(key), one)));
  return found.length > 0;
}

/** By which a router of ours says for whom it asks: a digest of its client's key. */
export const OWNER_HEADER = "x-perigee-owner";

/**
 * A name for who sent a request: another API key has another one. Keys that are not checked are
 * none; what a router says of its clients counts under its own key.
 */
export function ownerOf(request: OwnedRequest, keys: readonly string[]): string {
  const key = keysOf(request.headers).find((one) => keys.includes(one)) ?? "";
  const told = request.headers[OWNER_HEADER];
  return digest(JSON.stringify([key, typeof told === "string" ? told : ""])).toString("hex");
}

/** What a request is told by. */
type OwnedRequest = Pick<FastifyRequest, "headers">;

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

/**
 * The keys that a request names, the bearer token first: OpenAI's clients send that, Anthropic's
 * `x-api-key`, and some send both, of which one is a placeholder. Never empty; "": no key.
 */
export function keysOf(headers: IncomingHttpHeaders): readonly string[] {
  const { authorization = "", "x-api-key": own } = headers;
  const bearer = /^bearer /i.test(authorization)
    ? [authorization.slice("bearer ".length).trim()]
    : [];
  const keys = [...bearer, ...(typeof own === "string" ? [own.trim()] : [])];
  return keys.length === 0 ? [""] : keys;
}

function digest(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}
