/** The routes that documents may name: those of /openapi.json, and the router's own. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { RAG_ROUTES } from "../../src/rag/http/route-docs.ts";
import { SERVER_ROUTES } from "../../src/server/openapi/server-routes.ts";

const ROUTER = "src/cluster/router";
const routerRoutes = readdirSync(ROUTER)
  .filter((file) => file.endsWith(".ts"))
  .flatMap((file) => [
    ...readFileSync(join(ROUTER, file), "utf8").matchAll(/app\.\w+\("(\/[^"]*)"/g),
  ])
  .map(([, path = ""]) => path);

const patterns = [...SERVER_ROUTES, ...RAG_ROUTES]
  .map(({ path }) => path)
  .concat(routerRoutes)
  .map((path) => {
    const plain = path.replace(/[.+?^${}()|[\]\\]/g, "\\$&");
    return new RegExp(`^${plain.replace(/:\w+/g, "[^/]+").replace("*", ".+")}$`);
  });

/** Whether a server or a router of ours answers the path; `{id}` and `…` stand for one part. */
export function isRoute(path: string): boolean {
  const plain = path.replace(/\?.*/, "");
  return patterns.some((pattern) => pattern.test(plain));
}
