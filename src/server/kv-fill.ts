/** `POST /kv_fill`: a worker of the role kv is told which blocks to fetch, and from whom. */
import type { FastifyInstance } from "fastify";
import { EngineError } from "#base";
import type { ServerContext } from "./context.ts";
import { checkFleetAccess } from "./fleet-access.ts";
import { FillRequest } from "./openai/fill-request.ts";
import { parseRequest } from "./openai/parse-request.ts";

/** What has not come by then is not waited for. */
const DEADLINE_MS = 30_000;

/** The answer comes when the blocks have: `stored_tokens` of the prompt are stored then. */
export function kvFillRoute(
  app: FastifyInstance,
  context: ServerContext,
  secrets: readonly string[],
): void {
  const { admission, model } = context;
  app.post("/kv_fill", async (request) => {
    checkFleetAccess(request, context, { secrets, action: "fetch blocks" });
    const fields = parseRequest(FillRequest, request.body);
    if (admission.draining) {
      throw new EngineError("SHUTTING_DOWN", "Cannot fetch blocks: the server is shutting down");
    }
    if (model.fill === undefined || admission.duty.role !== "kv") throw notMemory(context);
    const { storedTokens, storedBefore } = await model.fill({
      promptTokenIds: fields.prompt_token_ids,
      cacheSalt: fields.cache_salt ?? null,
      reusedTokens: fields.reused_tokens ?? 0,
      peer: fields.source,
      deadlineMs: fields.deadline_ms ?? DEADLINE_MS,
    });
    return { stored_tokens: storedTokens, stored_before: storedBefore };
  });
}

function notMemory({ admission }: ServerContext): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    "Cannot fetch blocks: the worker must have the role kv, current value is " +
      `${admission.duty.role}; start one with --role kv`,
  );
}
