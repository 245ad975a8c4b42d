/** What each route of the server takes and answers. */
import { z } from "zod";
import { ASSET_ROUTE } from "../dashboard/page-routes.ts";
import { ChatRequest } from "../openai/chat-request.ts";
import { CompletionsRequest } from "../openai/completions-request.ts";
import { EmbeddingsRequest } from "../openai/embeddings.ts";
import { FillRequest } from "../openai/fill-request.ts";
import { RerankRequest } from "../openai/rerank.ts";
import { ResponseRequest } from "../openai/responses/response-request.ts";
import { ItemsQuery, ResponseQuery } from "../openai/responses/response-routes.ts";
import { RoleRequest } from "../openai/role-request.ts";
import { ScoreRequest } from "../openai/score.ts";
import { DetokenizeRequest, TokenizeRequest } from "../openai/tokenize.ts";
import { OTHER_APIS } from "./other-apis.ts";
import type { RouteDoc } from "./route-doc.ts";

const chat = { name: "ChatRequest", schema: ChatRequest };
const completions = { name: "CompletionsRequest", schema: CompletionsRequest };
const rerank = { name: "RerankRequest", schema: RerankRequest };
const score = { name: "ScoreRequest", schema: ScoreRequest };

type Untagged = Omit<RouteDoc, "tag">;

function under(tag: string, docs: readonly Untagged[]): readonly RouteDoc[] {
  return docs.map((doc) => ({ ...doc, tag }));
}

const post = { method: "post", answer: "json" } as const;
const get = { method: "get", answer: "json" } as const;

/** Has no schema of its own: clients of TensorRT-LLM send it with any content type. */
const times = z.enum(["on", "off"]).optional();
const EventsQuery = z.object({ timeout_ms: z.string().optional(), times });
const FollowQuery = z.object({
  after: z.string().optional(),
  tokens: z.enum(["objects", "plain"]).optional(),
  runs: z.literal("packed").optional(),
  times,
});

const GENERATION = under("Generation", [
  {
    ...{ ...post, path: "/v1/chat/completions", body: chat, answer: "streams" },
    summary: "The next message of a conversation",
  },
  {
    ...{ ...post, path: "/v1/responses", answer: "streams" },
    body: { name: "ResponseRequest", schema: ResponseRequest },
    summary: "A response, which another one can continue by its id",
  },
  {
    ...{ ...post, path: "/v1/completions", body: completions, answer: "streams" },
    summary: "What follows a text",
  },
  {
    ...{ ...post, path: "/v1/chat/completions/render", body: chat },
    summary: "The tokens that a conversation becomes",
  },
  {
    ...{ ...post, path: "/v1/completions/render", body: completions },
    summary: "The tokens that prompts become",
  },
]);

const KEPT = under("Kept responses", [
  {
    ...{ ...get, path: "/v1/responses/:response", query: ResponseQuery },
    summary: "A kept response",
  },
  {
    ...({ method: "delete", answer: "json", path: "/v1/responses/:response" } as const),
    summary: "Forgets a response",
  },
  {
    ...{ ...get, path: "/v1/responses/:response/input_items", query: ItemsQuery },
    summary: "The items that a response's request brought",
  },
  {
    ...{ ...post, path: "/v1/responses/:response/cancel" },
    summary: "Refused: kept responses are over",
  },
]);

const VECTORS = under("Embedding and reranking", [
  {
    ...{ ...post, path: "/v1/embeddings" },
    body: { name: "EmbeddingsRequest", schema: EmbeddingsRequest },
    summary: "Vectors of texts",
  },
  ...["/v1/rerank", "/rerank", "/v2/rerank"].map((path) => ({
    ...{ ...post, path, body: rerank },
    summary: "Documents in the order of their relevance to a query",
  })),
  ...["/v1/score", "/score"].map((path) => ({
    ...{ ...post, path, body: score },
    summary: "Scores of pairs of texts",
  })),
]);

const TEXTS = under("Models and tokens", [
  {
    ...{ ...post, path: "/tokenize", body: { name: "TokenizeRequest", schema: TokenizeRequest } },
    summary: "A text's or a conversation's tokens",
  },
  {
    ...{ ...post, path: "/detokenize" },
    body: { name: "DetokenizeRequest", schema: DetokenizeRequest },
    summary: "The text of tokens",
  },
  { ...get, path: "/v1/models", summary: "The models that are served" },
  { ...get, path: "/v1/models/*", summary: "One of them" },
]);

const CACHE = under("KV cache", [
  {
    ...{ ...post, path: "/kv_cache_events", query: EventsQuery },
    summary: "What happened in the KV cache since the last call",
  },
  {
    ...({ ...get, path: "/kv_cache_events/stream", query: FollowQuery, answer: "events" } as const),
    summary: "What happens in the KV cache, as events",
  },
  ...["/reset_prefix_cache", "/flush_cache"].map((path) => ({
    ...({ ...post, path, answer: "empty" } as const),
    summary: "Forgets all that is cached",
  })),
]);

const OPERATION = under("Operation", [
  ...["/health", "/ping", "/health/ready"].map((path) => ({
    ...({ ...get, path, answer: "empty" } as const),
    summary: "Whether requests are taken",
  })),
  {
    ...({ ...get, path: "/health/live", answer: "empty" } as const),
    summary: "Whether the engine lives",
  },
  { ...get, path: "/version", summary: "The version" },
  { ...get, path: "/metrics", answer: "text", summary: "Metrics for Prometheus" } as const,
  ...["/server_info", "/get_server_info"].map((path) => ({
    ...{ ...get, path, summary: "Model, state and options" },
  })),
  ...["/model_info", "/get_model_info"].map((path) => ({
    ...{ ...get, path, summary: "What other engines' routers ask of a model" },
  })),
  ...["/get_load", "/loads", "/v1/loads"].map((path) => ({
    ...{ ...get, path, summary: "How much work there is" },
  })),
  { ...get, path: "/", summary: "Name, version and routes" },
  { ...get, path: "/openapi.json", summary: "This document" },
  { ...get, path: "/docs", answer: "html", summary: "This document as a page" } as const,
]);

const FLEET = under("Fleet", [
  {
    ...{ ...get, path: "/worker_info", summary: "What routers read of a worker" },
    query: z.object({ follow: z.literal("on").optional() }),
  },
  {
    ...{ ...post, path: "/worker_role", body: { name: "RoleRequest", schema: RoleRequest } },
    summary: "Changes what a worker does for its fleet",
  },
  {
    ...{ ...post, path: "/kv_fill", body: { name: "FillRequest", schema: FillRequest } },
    summary: "Tells a worker that gives memory which blocks to fetch",
  },
]);

/** Numbers of a query are texts; the routes check their range. */
const RunsQuery = z.object({
  node: z.string().optional(),
  serial: z.string().optional(),
  runs: z.string().optional(),
});

const LIVE_PAGE = under("Live page", [
  {
    ...({ ...get, path: "/dashboard/events", answer: "events" } as const),
    ...{ query: z.object({ view: z.enum(["now", "cache"]).optional() }) },
    summary: "What the server does, as events",
  },
  {
    ...{ ...get, path: "/dashboard/prefixes", query: RunsQuery },
    summary: "The tree of cached prefixes, or what is below one of its runs",
  },
  {
    ...{ ...get, path: "/dashboard/text", query: RunsQuery.omit({ runs: true }) },
    summary: "The end of a cached prefix as text, for holders of an admin key",
  },
  {
    ...({ ...get, path: ASSET_ROUTE, answer: "bytes" } as const),
    summary: "A file of the page",
  },
]);

/** Of all routes that a server has by itself. */
export const SERVER_ROUTES: readonly RouteDoc[] = [
  ...OTHER_APIS,
  ...[...GENERATION, ...KEPT, ...VECTORS, ...TEXTS, ...CACHE, ...OPERATION, ...FLEET, ...LIVE_PAGE],
];
