/** What routes of other APIs than OpenAI's take and answer. */
import { CountTokensRequest, MessagesRequest } from "../anthropic/messages-request.ts";
import { OllamaChatRequest } from "../ollama/ollama-chat.ts";
import { OllamaEmbeddingsRequest, OllamaEmbedRequest } from "../ollama/ollama-embed.ts";
import { OllamaGenerateRequest } from "../ollama/ollama-generate.ts";
import { OllamaShowRequest } from "../ollama/ollama-models.ts";
import type { RouteDoc } from "./route-doc.ts";

function anthropic(path: string, answer: RouteDoc["answer"]) {
  return { ...({ method: "post", tag: "Anthropic", errors: "anthropic" } as const), path, answer };
}

const messages: readonly RouteDoc[] = [
  {
    ...anthropic("/v1/messages", "streams"),
    body: { name: "MessagesRequest", schema: MessagesRequest },
    summary: "The next message of a conversation",
  },
  {
    ...anthropic("/v1/messages/count_tokens", "json"),
    body: { name: "CountTokensRequest", schema: CountTokensRequest },
    summary: "How many tokens a conversation has",
  },
];

function ollama(method: RouteDoc["method"], name: string, summary: string): RouteDoc {
  const path = `/api/${name}`;
  return { method, path, answer: "json", tag: "Ollama", summary, errors: "ollama" };
}

const ollamaRoutes: readonly RouteDoc[] = [
  {
    ...ollama("post", "chat", "The next message of a conversation"),
    ...{ body: { name: "OllamaChatRequest", schema: OllamaChatRequest }, answer: "lines" },
  },
  {
    ...ollama("post", "generate", "What follows a text"),
    ...{
      body: { name: "OllamaGenerateRequest", schema: OllamaGenerateRequest },
      answer: "lines",
    },
  },
  {
    ...ollama("post", "embed", "Vectors of texts"),
    body: { name: "OllamaEmbedRequest", schema: OllamaEmbedRequest },
  },
  {
    ...ollama("post", "embeddings", "The vector of one text"),
    body: { name: "OllamaEmbeddingsRequest", schema: OllamaEmbeddingsRequest },
  },
  {
    ...ollama("post", "show", "What a model is"),
    body: { name: "OllamaShowRequest", schema: OllamaShowRequest },
  },
  ollama("get", "version", "The version"),
  ollama("get", "tags", "The models that are served"),
  ollama("get", "ps", "The models that are loaded"),
  ...["pull", "push", "create", "copy"].map((name) =>
    ollama("post", name, "Refused: the server's start decides which model it has"),
  ),
  ollama("delete", "delete", "Refused: the server's start decides which model it has"),
];

/** Of Anthropic's and Ollama's. */
export const OTHER_APIS: readonly RouteDoc[] = [...messages, ...ollamaRoutes];
