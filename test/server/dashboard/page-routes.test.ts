import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import fastify from "fastify";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readPage } from "../../../src/server/dashboard/page-files.ts";
import { pageRoutes } from "../../../src/server/dashboard/page-routes.ts";

const SCRIPT = "console.log('a page');";
let folder: string;
const app = fastify();

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "perigee-page-"));
  await mkdir(join(folder, "dashboard/assets"), { recursive: true });
  await writeFile(join(folder, "index.html"), "<!doctype html><title>A page</title>");
  await writeFile(join(folder, "dashboard/assets/index-1.js"), SCRIPT);
  await writeFile(join(folder, "dashboard/assets/notes.txt"), "not a file of the page");
  pageRoutes(
    app,
    () => ({ name: "facts" }),
    () => readPage(folder),
  );
});

afterAll(async () => {
  await app.close();
  await rm(folder, { recursive: true });
});

test("browsers get the page, programs the facts", async () => {
  const page = await app.inject({ url: "/", headers: { accept: "text/html,*/*;q=0.8" } });
  expect(page.headers["content-type"]).toBe("text/html; charset=utf-8");
  expect(page.body).toContain("<title>A page</title>");
  for (const accept of ["*/*", "application/json", undefined]) {
    const facts = await app.inject({ url: "/", headers: accept === undefined ? {} : { accept } });
    expect(facts.json()).toEqual({ name: "facts" });
    expect(facts.headers.vary).toContain("accept");
  }
});

test("no script but the server's own runs, in no frame, and no text becomes markup", async () => {
  const { headers } = await app.inject({ url: "/", headers: { accept: "text/html" } });
  const policy = String(headers["content-security-policy"]).split("; ");
  expect(policy).toEqual(
    expect.arrayContaining([
      ...["default-src 'none'", "script-src 'self'", "connect-src 'self'", "base-uri 'none'"],
      ...["frame-ancestors 'none'", "form-action 'none'", "require-trusted-types-for 'script'"],
    ]),
  );
  expect(policy.join()).not.toMatch(/unsafe|https?:|\*/);
  expect(headers).toMatchObject({
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
  });
});

test("files are compressed where that is accepted, and kept for long by browsers", async () => {
  const url = "/dashboard/assets/index-1.js";
  const plain = await app.inject({ url });
  expect(plain.body).toBe(SCRIPT);
  expect(plain.headers).toMatchObject({
    "content-type": "text/javascript; charset=utf-8",
    "cache-control": "public, max-age=31536000, immutable",
    "x-content-type-options": "nosniff",
  });
  const small = await app.inject({ url, headers: { "accept-encoding": "br, gzip" } });
  expect(small.headers["content-encoding"]).toBe("gzip");
  expect(gunzipSync(small.rawPayload).toString()).toBe(SCRIPT);
  const { etag } = plain.headers;
  const again = await app.inject({ url, headers: { "if-none-match": String(etag) } });
  expect([again.statusCode, again.body]).toEqual([304, ""]);
});

test.for([
  ...["notes.txt", "missing.js", "..%2f..%2findex.html", "%2e%2e%2f", "__proto__", "constructor"],
  ...["index-1.js%00", "INDEX-1.JS"],
])("there is no file %s", async (name) => {
  const answer = await app.inject({ url: `/dashboard/assets/${name}` });
  expect(answer.statusCode).toBe(404);
});

test("where the page was not built, all get the facts", async () => {
  const bare = fastify();
  pageRoutes(
    bare,
    () => ({ name: "facts" }),
    () => readPage(join(folder, "nothing")),
  );
  const answer = await bare.inject({ url: "/", headers: { accept: "text/html" } });
  expect(answer.json()).toEqual({ name: "facts" });
  await bare.close();
});
