/** POST /api/embed, and /api/embeddings before it. */
import { z } from "zod";
import type { Call, ServerContext } from "../context.ts";
import type { Answer } from "../openai/answer.ts";
import { boundedList, LIST_LIMITS } from "../openai/bounded.ts";
import { textVectors } from "../openai/embeddings.ts";
import { parseRequest } from "../openai/parse-request.ts";
import { nanoseconds } from "./ollama-answer.ts";
import { generatingFields, optionsField, servedName } from "./ollama-fields.ts";

const common = {
  model: generatingFields.model,
  options: optionsField,
  keep_alive: generatingFields.keep_alive,
};

/** Body of POST /api/embed. */
export const OllamaEmbedRequest = z.strictObject({
  ...common,
  input: z.union(
    [z.string(), boundedList(z.string(), { max: LIST_LIMITS.prompts })],
    `must be text or a list of at most ${LIST_LIMITS.prompts} texts`,
  ),
  truncate: z.boolean().nullish(),
  dimensions: z.int().positive().nullish(),
});

/** Body of POST /api/embeddings. */
export const OllamaEmbeddingsRequest = z.strictObject({ ...common, prompt: z.string() });

export async function ollamaEmbed(
  context: ServerContext,
  body: unknown,
  call: Call,
): Promise<Answer> {
  const arrivedMs = performance.now();
  const request = parseRequest(OllamaEmbedRequest, body);
  const model = servedName(context, request.model);
  const { input, dimensions } = request;
  const texts = typeof input === "string" ? [input] : input;
  // Ollama cuts texts that are too long, unless it is told not to.
  const isCut = request.truncate !== false;
  const embeddings = await textVectors(context, call, { texts, dimensions, isCut });
  return {
    kind: "bytes",
    json: Buffer.concat([
      Buffer.from(`{"model":${JSON.stringify(model)},"embeddings":[`),
      embeddings,
      Buffer.from(`],${JSON.stringify(statistics(call, arrivedMs)).slice(1)}`),
    ]),
  };
}

function statistics({ usage }: Call, arrivedMs: number): object {
  return {
    total_duration: nanoseconds(performance.now() - arrivedMs),
    load_duration: 0,
    prompt_eval_count: usage.usage().prompt_tokens,
  };
}

export async function ollamaEmbeddings(
  context: ServerContext,
  body: unknown,
  call: Call,
): Promise<Answer> {
  const request = parseRequest(OllamaEmbeddingsRequest, body);
  servedName(context, request.model);
  const texts = [request.prompt];
  const vector = await textVectors(context, call, { texts, isCut: true });
  return { kind: "bytes", json: Buffer.concat([Buffer.from('{"embedding":'), vector, CLOSE]) };
}

const CLOSE = Buffer.from("}");
