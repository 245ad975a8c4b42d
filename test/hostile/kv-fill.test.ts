/** Every field of `POST /kv_fill` with every hostile value, at a server that gives memory alone. */
import { expect, test } from "vitest";
import { reserveServer } from "#server";
import { load } from "../engine/exchange/peers.ts";
import { FIELD_VALUES } from "./field-values.ts";
import { type JsonText, objectText } from "./json-text.ts";
import { BODY_ROUTES, fieldPaths } from "./request-schemas.ts";
import { textOf } from "./value-families.ts";

const PATH = "/kv_fill";
const FILLED = new Set([200, 400, 413, 429, 502]);
const TEST_MS = 120_000;

function bodyWith(field: string, value: JsonText): JsonText {
  const route = BODY_ROUTES.find(({ path }) => path === PATH);
  const { around = "$" } = FIELD_VALUES[field] ?? {};
  const [top = field] = field.split(".", 1);
  const fields = { ...route?.body, deadline_ms: "200", [top]: around.split("$").join(value) };
  return objectText(fields);
}

test(
  "[CL225] hostile orders to fetch are refused or fail, and leave nothing behind",
  async () => {
    const kvCache = { hostCacheBytes: 2 ** 20 };
    const { llm } = await load({ kvTransfer: { memoryAlone: true }, kvCache });
    await using reserved = await reserveServer({
      ...{ port: 0, logLevel: "silent", answeringThreads: 0 },
    });
    const worker = { id: "kv", epoch: "e", url: "http://127.0.0.1:9", role: "kv" } as const;
    await using server = await reserved.serve(llm, { worker });
    const schema = BODY_ROUTES.find(({ path }) => path === PATH)?.schema;
    if (schema === undefined) throw new Error("The route must have a schema");
    const odd: string[] = [];
    for (const field of fieldPaths(schema)) {
      for (const value of FIELD_VALUES[field]?.hostile ?? []) {
        const body = bodyWith(field, textOf(value));
        const response = await fetch(`${server.url}${PATH}`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body,
        });
        const text = await response.text();
        const isFine = FILLED.has(response.status) && text.length < 1500;
        if (!isFine) odd.push(`${body.slice(0, 200)} → ${response.status} ${text.slice(0, 300)}`);
      }
    }
    expect(odd).toEqual([]);
    const held = () => (llm.stats().cache?.levels ?? []).map((level) => level.held);
    await expect.poll(held, { timeout: 10_000 }).toEqual([0, 0]);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
    await server.close();
    await llm.close();
  },
  TEST_MS,
);
