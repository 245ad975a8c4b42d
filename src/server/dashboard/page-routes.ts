/** The page and its files: open to all who reach the server, since they tell nothing of it. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { HttpError } from "../http-errors.ts";
import { type PageFile, type PageFiles, readPage } from "./page-files.ts";

/** The route of the page's files, which needs no key. */
export const ASSET_ROUTE = "/dashboard/assets/:name";

const YEAR_SECONDS = 31_536_000;

/**
 * Scripts and styles of this server alone, no inline ones, no frames, and no text that becomes
 * markup: browsers refuse it even where the page had a mistake.
 */
const POLICY = [
  "default-src 'none'",
  ...["script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self' data:"],
  ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
  ...["require-trusted-types-for 'script'", "trusted-types 'none'"],
].join("; ");

const HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy": POLICY,
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

/**
 * `GET /`, the page for browsers and `facts` for programs, and the page's files. Without a built
 * page all get `facts`. `read`: where the files come from.
 */
export function pageRoutes(
  app: FastifyInstance,
  facts: () => object,
  read: () => Promise<PageFiles | null> = readPage,
): void {
  let reading: Promise<PageFiles | null> | null = null;
  const page = () => {
    reading ??= read();
    return reading;
  };
  app.get("/", async (request, reply) => {
    reply.header("vary", "accept, accept-encoding");
    const files = wantsPage(request) ? await page() : null;
    if (files === null) return facts();
    return send(request, reply.header("cache-control", "no-cache"), files.index);
  });
  app.get<{ Params: { name: string } }>(ASSET_ROUTE, async (request, reply) => {
    const file = (await page())?.assets.get(request.params.name);
    if (file === undefined) throw new HttpError(404, "not_found", "Cannot find this file");
    reply.header("vary", "accept-encoding");
    // Their names change with their contents.
    reply.header("cache-control", `public, max-age=${YEAR_SECONDS}, immutable`);
    return send(request, reply, file);
  });
}

/** Browsers ask for HTML by name; programs that take anything get JSON, as they always did. */
function wantsPage({ headers }: FastifyRequest): boolean {
  return /\btext\/html\b/i.test(headers.accept ?? "");
}

function send(request: FastifyRequest, reply: FastifyReply, file: PageFile): FastifyReply {
  reply.headers({ ...HEADERS, etag: file.etag, "content-type": file.type });
  if (request.headers["if-none-match"] === file.etag) return reply.code(304).send();
  const gzips = /\bgzip\b/.test(String(request.headers["accept-encoding"] ?? ""));
  if (!gzips) return reply.send(file.bytes);
  return reply.header("content-encoding", "gzip").send(file.gzipped);
}
