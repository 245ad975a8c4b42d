/** GET /openapi.json and GET /docs. */
import { createHash } from "node:crypto";
import type { FastifyInstance } from "fastify";
import { OPEN_PATHS } from "../access.ts";
import type { ServerContext } from "../context.ts";
import { DOCS_PAGE, PAGE_SCRIPT, PAGE_STYLE } from "./docs-page.ts";
import { openApiDocument } from "./document.ts";
import type { RouteDoc } from "./route-doc.ts";
import { SERVER_ROUTES } from "./server-routes.ts";

/** A route as an application has it. */
export type Registered = Pick<RouteDoc, "method" | "path">;

const METHODS = ["get", "post", "put", "patch", "delete"] as const;

/** The routes that an application gets after this call. */
export function watchRoutes(app: FastifyInstance): readonly Registered[] {
  const routes: Registered[] = [];
  app.addHook("onRoute", ({ method, url: path }) => {
    for (const one of [method].flat()) {
      const known = METHODS.find((name) => name === one.toLowerCase());
      if (known !== undefined) routes.push({ method: known, path });
    }
  });
  return routes;
}

/** The document is made when it is first asked for: by then all routes are there. */
export function openApiRoutes(
  app: FastifyInstance,
  { config, version, extension }: ServerContext,
  routes: readonly Registered[],
): void {
  const docs = [...SERVER_ROUTES, ...(extension?.routeDocs ?? [])];
  const described = new Map(docs.map((doc) => [`${doc.method} ${doc.path}`, doc]));
  const docOf = ({ method, path }: Registered): RouteDoc =>
    described.get(`${method} ${path}`) ?? { method, path, ...UNDESCRIBED };
  // In the order of the descriptions; what has none comes last.
  const placeOf = (doc: RouteDoc) => {
    const place = docs.indexOf(doc);
    return place < 0 ? docs.length : place;
  };
  let json: Buffer | null = null;
  app.get("/openapi.json", async (_request, reply) => {
    json ??= Buffer.from(
      JSON.stringify(
        openApiDocument({
          ...{ version, needsKey: config.apiKey.length > 0, openPaths: OPEN_PATHS },
          routes: routes.map(docOf).sort((a, b) => placeOf(a) - placeOf(b)),
        }),
      ),
    );
    return reply.type("application/json; charset=utf-8").send(json);
  });
  app.get("/docs", async (_request, reply) =>
    reply.headers(PAGE_HEADERS).type("text/html; charset=utf-8").send(DOCS_PAGE),
  );
}

/** A test fails for it, so that no route is forgotten. */
const UNDESCRIBED = { tag: "Other", summary: "Not described", answer: "json" } as const;

function hashOf(text: string): string {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

/** The page runs its own script alone, asks this server alone, and can make no HTML from text. */
const PAGE_HEADERS = {
  "content-security-policy": [
    "default-src 'none'",
    `script-src ${hashOf(PAGE_SCRIPT)}`,
    `style-src ${hashOf(PAGE_STYLE)}`,
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; "),
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-cache",
};
