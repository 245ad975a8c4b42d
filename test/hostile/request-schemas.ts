/** The routes that take a body, and every field of each, read from the server's own schemas. */
import { z } from "zod";
import { ChatRequest } from "../../src/server/openai/chat-request.ts";
import { CompletionsRequest } from "../../src/server/openai/completions-request.ts";
import { EmbeddingsRequest } from "../../src/server/openai/embeddings.ts";
import { FillRequest } from "../../src/server/openai/fill-request.ts";
import { RerankRequest } from "../../src/server/openai/rerank.ts";
import { ScoreRequest } from "../../src/server/openai/score.ts";
import { DetokenizeRequest, TokenizeRequest } from "../../src/server/openai/tokenize.ts";
import type { JsonFields } from "./json-text.ts";

/** A route that takes a JSON object, and a small right body for it. */
export interface BodyRoute {
  readonly path: string;
  readonly schema: z.ZodType;
  readonly body: JsonFields;
  /** It answers as a stream, too, where `stream` is true. */
  readonly streams: boolean;
}

const drawing = { max_tokens: "4", temperature: "0" };

export const BODY_ROUTES: readonly BodyRoute[] = [
  {
    path: "/v1/chat/completions",
    schema: ChatRequest,
    body: { messages: '[{"role":"user","content":"What is a cache?"}]', ...drawing },
    streams: true,
  },
  {
    path: "/v1/completions",
    schema: CompletionsRequest,
    body: { prompt: '"A cache is"', ...drawing },
    streams: true,
  },
  {
    path: "/v1/embeddings",
    schema: EmbeddingsRequest,
    body: { input: '"A cache"' },
    streams: false,
  },
  {
    path: "/v1/chat/completions/render",
    schema: ChatRequest,
    body: { messages: '[{"role":"user","content":"What is a cache?"}]', ...drawing },
    streams: false,
  },
  {
    path: "/v1/completions/render",
    schema: CompletionsRequest,
    body: { prompt: '"A cache is"', ...drawing },
    streams: false,
  },
  { path: "/tokenize", schema: TokenizeRequest, body: { prompt: '"A cache"' }, streams: false },
  { path: "/detokenize", schema: DetokenizeRequest, body: { tokens: "[5, 6]" }, streams: false },
  {
    path: "/kv_fill",
    schema: FillRequest,
    body: { prompt_token_ids: "[5, 6]", source: '{"host":"127.0.0.1","port":9}' },
    streams: false,
  },
  {
    path: "/v1/rerank",
    schema: RerankRequest,
    body: { query: '"a cache"', documents: '["A cache","A mutex"]' },
    streams: false,
  },
  {
    path: "/v2/rerank",
    schema: RerankRequest,
    body: { query: '"a cache"', documents: '["A cache","A mutex"]' },
    streams: false,
  },
  {
    path: "/v1/score",
    schema: ScoreRequest,
    body: { text_1: '"a cache"', text_2: '["A cache","A mutex"]' },
    streams: false,
  },
];

/** JSON schema, as far as fields are found in it. */
interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly items?: SchemaNode;
  readonly anyOf?: readonly SchemaNode[];
  readonly oneOf?: readonly SchemaNode[];
}

/** Every field of a schema, also inside of others: `stream_options`, `tools[].function.name`. */
export function fieldPaths(schema: z.ZodType): string[] {
  const node = z.toJSONSchema(schema, { io: "input", unrepresentable: "any", reused: "inline" });
  return [...new Set(pathsIn(node as SchemaNode, ""))];
}

function pathsIn(node: SchemaNode, prefix: string): string[] {
  const inside = [...(node.anyOf ?? []), ...(node.oneOf ?? [])].flatMap((option) =>
    pathsIn(option, prefix),
  );
  const items = node.items === undefined ? [] : pathsIn(node.items, `${prefix}[]`);
  const fields = Object.entries(node.properties ?? {}).flatMap(([name, child]) => {
    const path = prefix === "" ? name : `${prefix}.${name}`;
    return [path, ...pathsIn(child, path)];
  });
  return [...inside, ...items, ...fields];
}
