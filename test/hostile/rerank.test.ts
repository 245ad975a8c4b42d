/** Every field of the routes that score pairs with every hostile value, at a cross-encoder. */
import { describe, expect, test } from "vitest";
import { LLM } from "#engine";
import { startServer } from "#server";
import { LAYOUT_DEVICES } from "../rag/embedders/devices.ts";
import { recordedLayout, rerankerFolder } from "../rag/embedders/recorded-layout.ts";
import { eachNth } from "../support/full.ts";
import type { Fields } from "./answer-check.ts";
import { contentProblems } from "./content-check.ts";
import { FIELD_VALUES } from "./field-values.ts";
import { type JsonText, objectText } from "./json-text.ts";
import { BODY_ROUTES, type BodyRoute, fieldPaths } from "./request-schemas.ts";
import { textOf } from "./value-families.ts";

const PATHS = new Set(["/v1/rerank", "/v2/rerank", "/v1/score"]);
/** So many values apart, unless all are asked for. */
const NTH = 6;
const REFUSED = new Set([400, 404, 413]);
const TEST_MS = 300_000;
/** Characters of an answer that refuses: clients' content is not sent back to them. */
const REFUSAL_LENGTH_MAX = 1500;

function bodyWith(route: BodyRoute, field: string, value: JsonText): JsonText {
  const { around = "$", beside = {} } = FIELD_VALUES[field] ?? {};
  const [top = field] = field.split(/[.[]/, 1);
  return objectText({ ...route.body, ...beside, [top]: around.split("$").join(value) });
}

/** What is wrong with an answer; null: nothing. */
function problemOf(path: string, body: JsonText, status: number, text: string): string | null {
  if (REFUSED.has(status)) {
    return text.length <= REFUSAL_LENGTH_MAX ? null : `a refusal of ${text.length} characters`;
  }
  if (status !== 200) return `${status} ${text.slice(0, 300)}`;
  const [asked, answered]: [Fields, Fields] = [JSON.parse(body), JSON.parse(text)];
  const [problem = null] = contentProblems(path, asked, answered).problems;
  return problem;
}

// The definitions would take an hour.
describe.skipIf(!LAYOUT_DEVICES.includes("cpu"))("the CPU's kernels, which must be built", () => {
  test.each(BODY_ROUTES.filter(({ path }) => PATHS.has(path)))(
    "[RG77] $path refuses hostile values, or ranks what there is, and serves on",
    async (route) => {
      const recorded = recordedLayout("bert").rerankers["scores of 0 to 1"];
      const folder = rerankerFolder("bert", recorded ?? { config: {}, scores: [] });
      const onWarning = () => {};
      await using llm = await LLM.load(folder, { device: "cpu", onWarning, servedName: "pocket" });
      const server = await startServer(llm, { port: 0, logLevel: "silent", shutdownTimeoutMs: 0 });
      const send = (body: JsonText) =>
        fetch(server.url + route.path, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body,
        });
      const odd: string[] = [];
      for (const field of fieldPaths(route.schema)) {
        for (const value of eachNth(NTH, FIELD_VALUES[field]?.hostile ?? [])) {
          const body = bodyWith(route, field, textOf(value));
          const response = await send(body);
          const problem = problemOf(route.path, body, response.status, await response.text());
          if (problem !== null) odd.push(`${body.slice(0, 200)} → ${problem}`);
        }
      }
      expect(odd).toEqual([]);
      expect((await send(objectText(route.body))).status).toBe(200);
      await server.close();
    },
    TEST_MS,
  );
});
