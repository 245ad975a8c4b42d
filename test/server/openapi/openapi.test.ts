import { createHash } from "node:crypto";
import { Validator } from "@seriousme/openapi-schema-validator";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, test } from "vitest";
import { RAG_ROUTES } from "../../../src/rag/http/route-docs.ts";
import { SERVER_ROUTES } from "../../../src/server/openapi/server-routes.ts";
import { closeRagServers, serveRag } from "../../support/rag-server.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeToyServers();
closeRagServers();

type Schema = Readonly<Record<string, unknown>>;
interface Operation {
  readonly operationId: string;
  readonly security?: readonly object[];
  readonly responses?: Readonly<Record<string, { readonly content?: Schema }>>;
  readonly requestBody?: { readonly content: Readonly<Record<string, { schema: Schema }>> };
}
interface Document {
  readonly openapi: string;
  readonly security?: readonly object[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

async function documentOf(url: string): Promise<Document> {
  const answer = await fetch(`${url}/openapi.json`);
  expect(answer.headers.get("content-type")).toContain("application/json");
  return (await answer.json()) as Document;
}

/** `post /v1/responses` of each operation. */
function operationsOf({ paths }: Document): string[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method} ${path}`),
  );
}

function documented(routes: readonly { method: string; path: string }[]): string[] {
  const named = (path: string) => path.replace(/:(\w+)/g, "{$1}").replace("/*", "/{model}");
  return routes.map(({ method, path }) => `${method} ${named(path)}`);
}

describe("the document", () => {
  test("is valid OpenAPI 3.1, with vector stores, too", async () => {
    const { url } = await serveRag();
    const validator = new Validator();
    const result = await validator.validate((await documentOf(url)) as never);
    expect(result.errors ?? []).toEqual([]);
    expect(result.valid).toBe(true);
    expect(validator.version).toBe("3.1");
  });

  test("has each route of the server, and no other", async () => {
    const { server } = await serveToy();
    const bare = operationsOf(await documentOf(server.url));
    expect(bare.sort()).toEqual(documented(SERVER_ROUTES).sort());
    const { url } = await serveRag();
    const whole = operationsOf(await documentOf(url));
    expect(whole.sort()).toEqual(documented([...SERVER_ROUTES, ...RAG_ROUTES]).sort());
  });

  test("names what the application has registered: each of its routes answers", async () => {
    const { server, get, post } = await serveToy();
    for (const operation of operationsOf(await documentOf(server.url))) {
      const [method = "", path = ""] = operation.split(" ");
      if (/\/(stream|events)$/.test(path)) continue; // does not end
      const real = path.replace("{model}", "toy").replace("{response}", "resp_1");
      const answer = method === "post" ? await post(real, {}) : await get(real, { method });
      const text = await answer.text();
      expect([operation, answer.status, text]).not.toEqual([
        ...[operation, 404, expect.stringContaining("no such endpoint")],
      ]);
      expect(answer.status).not.toBe(405);
    }
  });

  test("describes bodies by the schemas that they are checked by", async () => {
    const { server } = await serveToy();
    const { components } = await documentOf(server.url);
    const ajv = new Ajv2020({ strict: false });
    ajv.addSchema({ $id: "all", components });
    const accepts = (name: string, body: unknown) =>
      ajv.validate({ $ref: `all#/components/schemas/${name}` }, body);
    const message = { role: "user", content: "Hi" };
    expect(accepts("ChatRequest", { messages: [message], temperature: 0 })).toBe(true);
    expect(accepts("ChatRequest", { messages: [{ role: "robot" }] })).toBe(false);
    expect(accepts("ChatRequest", { messages: [message], unknown: 1 })).toBe(false);
    expect(accepts("ChatRequest", { temperature: 0 })).toBe(false);
    expect(accepts("CompletionsRequest", { max_tokens: 1 })).toBe(false);
    expect(accepts("ResponseRequest", { input: "Hi", text: { format: { type: "text" } } })).toBe(
      true,
    );
    expect(accepts("ResponseRequest", { input: [{ type: "message", ...message }] })).toBe(true);
    expect(accepts("ResponseRequest", { input: 5 })).toBe(false);
    expect(accepts("ResponseRequest", { input: "Hi", background: true })).toBe(false);
    const tools = [{ type: "file_search", vector_store_ids: ["vs_1"], filters: { type: "eq" } }];
    expect(accepts("ResponseRequest", { input: "Hi", tools })).toBe(true);
  });

  test.for([
    ["/v1/chat/completions", "text/event-stream", "Error"],
    ["/v1/messages", "text/event-stream", "AnthropicError"],
    ["/api/chat", "application/x-ndjson", "OllamaError"],
  ] as const)("tells how %s streams and what its errors are", async ([path, type, name]) => {
    const { server, post } = await serveToy();
    const { paths, components } = await documentOf(server.url);
    const { responses } = paths[path]?.post ?? {};
    expect(Object.keys(responses?.["200"]?.content ?? {})).toEqual(["application/json", type]);
    expect(responses?.default).toEqual({ $ref: `#/components/responses/${name}` });
    const ajv = new Ajv2020({ strict: false });
    ajv.addSchema({ $id: "all", components });
    const refusal: unknown = await (await post(path, { model: "gpt", messages: 5 })).json();
    const names = ["Error", "AnthropicError", "OllamaError"];
    const fitting = names.filter((one) =>
      ajv.validate({ $ref: `all#/components/schemas/${one}` }, refusal),
    );
    expect(fitting).toEqual([name]);
    const body = { model: "toy", messages: [{ role: "user", content: "Hi" }], max_tokens: 4 };
    const { max_tokens: _, ...short } = body;
    const asked = path === "/api/chat" ? short : { ...body, stream: true };
    const answer = await post(path, asked);
    expect(answer.headers.get("content-type")?.split(";")[0]).toBe(type);
    await answer.text();
  });

  test("gives each operation an id of its own", async () => {
    const { url } = await serveRag();
    const { paths } = await documentOf(url);
    const ids = Object.values(paths).flatMap((methods) =>
      Object.values(methods).map(({ operationId }) => operationId),
    );
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.every((id) => /^[a-z]\w*$/.test(id))).toBe(true);
  });

  test("says which routes need a key, and needs none itself", async () => {
    const { server } = await serveToy({}, { apiKey: ["secret"] });
    const document = await documentOf(server.url);
    expect(document.security).toEqual([{ key: [] }, { ownHeader: [] }]);
    expect(document.paths["/v1/responses"]?.post?.security).toBeUndefined();
    for (const path of ["/health", "/metrics", "/openapi.json", "/docs", "/"]) {
      expect([path, document.paths[path]?.get?.security]).toEqual([path, []]);
      expect((await fetch(server.url + path)).status).toBe(200);
    }
    expect((await fetch(`${server.url}/v1/models`)).status).toBe(401);
    const open = await serveToy();
    expect((await documentOf(open.server.url)).security).toBeUndefined();
  });
});

describe("the page", () => {
  async function page() {
    const { server } = await serveToy();
    const answer = await fetch(`${server.url}/docs`);
    const policy = new Map(
      (answer.headers.get("content-security-policy") ?? "").split("; ").map((rule) => {
        const [name = "", ...values] = rule.split(" ");
        return [name, values] as const;
      }),
    );
    return { answer, policy, html: await answer.text() };
  }

  test("is one small file, which asks this server alone", async () => {
    const { answer, html } = await page();
    expect(answer.headers.get("content-type")).toContain("text/html");
    expect(Buffer.byteLength(html)).toBeLessThan(60_000);
    expect(html).not.toMatch(/https?:\/\//);
    expect(html).not.toMatch(/\b(src|import)\b *[=(]/);
  });

  test("may run nothing but its own script", async () => {
    const { policy, html } = await page();
    const hash = (tag: string) => {
      const [, text = ""] = new RegExp(`<${tag}>([\\s\\S]*?)</${tag}>`).exec(html) ?? [];
      return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
    };
    expect(policy.get("default-src")).toEqual(["'none'"]);
    expect(policy.get("script-src")).toEqual([hash("script")]);
    expect(policy.get("style-src")).toEqual([hash("style")]);
    expect(policy.get("connect-src")).toEqual(["'self'"]);
    expect(policy.get("require-trusted-types-for")).toEqual(["'script'"]);
    expect(html.match(/<script/g)).toHaveLength(1);
    expect(html).not.toMatch(/ on\w+=| style=/);
  });

  test("makes no HTML from text", async () => {
    const { html } = await page();
    expect(html).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(/);
  });
});
