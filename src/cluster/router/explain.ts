/** GET and POST /route/explain: who would get a request, and what each worker would cost. */
import type { FastifyInstance, FastifyRequest } from "fastify";
import { EngineError, shortText } from "#base";
import type { ExplainedWorker, Explanation } from "#cluster/routing";
import { HttpError } from "#server";
import { booksJson } from "./books-json.ts";
import { conductorJson } from "./conductor-terms.ts";
import type { RouterContext } from "./context.ts";
import { readRequest } from "./generation-request.ts";
import type { ReadPrompts } from "./prompt-reader.ts";
import { plannedFields } from "./relay-route.ts";
import { withModel } from "./unnamed-model.ts";

export function explainRoutes(app: FastifyInstance, context: RouterContext): void {
  app.get<{ Querystring: { prompt?: string; model?: string; request?: string } }>(
    "/route/explain",
    async (request) => {
      const { prompt, model, request: id } = request.query;
      if (id !== undefined) return pastDecisions(context, id);
      if (typeof prompt !== "string" || prompt === "") {
        throw new EngineError(
          "INVALID_ARGUMENT",
          "Cannot explain: a prompt must be given, current value is missing; use ?prompt=TEXT, " +
            "or POST the body of a chat or completion, or ?request=ID of one that was decided",
          { param: "prompt" },
        );
      }
      return explain(context, request, { prompt, ...(model === undefined ? {} : { model }) });
    },
  );
  app.post("/route/explain", async (request) => explain(context, request, request.body));
}

/** Of a request that came lately, by its id. */
function pastDecisions({ decisions }: RouterContext, id: unknown): unknown {
  const lines = typeof id === "string" ? decisions.decisionsOf(id) : [];
  if (lines.length > 0) {
    return { request: id, decisions: lines.map((line): unknown => JSON.parse(line)) };
  }
  const shown = shortText(typeof id === "string" ? id : "several");
  throw new HttpError(
    404,
    "request_not_found",
    `Cannot explain: request must be one of the last that came, current value is \`${shown}\``,
  );
}

async function explain(
  context: RouterContext,
  request: FastifyRequest,
  body: unknown,
): Promise<unknown> {
  const isChat = typeof body === "object" && body !== null && "messages" in body;
  const read = readRequest({
    ...{ path: isChat ? "/v1/chat/completions" : "/v1/completions", id: request.id, body },
    ...{ text: JSON.stringify(body) ?? "", headers: request.headers },
    sessionHeader: context.config.sessionHeader,
  });
  const order = withModel(read, context.membership.workers);
  const signal = AbortSignal.timeout(context.config.connectTimeoutMs * 2);
  const prompts = await context.prompts.read(order, signal);
  const fields = plannedFields(order, performance.now());
  const query = { ...prompts.query, ...fields, excluded: new Set<string>() };
  const found = context.dispatcher.explain(query);
  const ask = context.dispatcher.planAskOf(query);
  // Among equals a policy may choose another one when it is asked again.
  const { choice } = found;
  const choose = choice === null ? {} : { choose: () => choice };
  const terms = ask === null ? null : context.conductor.explain({ ...ask, ...choose });
  return { ...explanationJson(context, prompts, found), conductor: conductorJson(terms) };
}

function explanationJson(
  context: RouterContext,
  { query, origin }: ReadPrompts,
  { policy, choice, unrouted, workers }: Explanation,
): object {
  const at = choice === null ? -1 : choice.chosen;
  const candidates = workers.filter(({ leftOut }) => leftOut === null);
  return {
    policy,
    model: query.model,
    prompt_tokens: query.promptTokens,
    tokens_from: origin,
    chosen: candidates[at]?.worker.id ?? null,
    reason: choice?.reason ?? null,
    unrouted,
    /** It would wait in the router: all that may have it are full, or others wait already. */
    would_wait: wouldWait(context, candidates),
    waiting: context.tools.room.count,
    workers: workers.map((worker) => workerJson(context, worker)),
  };
}

function wouldWait({ tools }: RouterContext, candidates: readonly ExplainedWorker[]): boolean {
  if (tools.room.count > 0) return true;
  return candidates.length > 0 && candidates.every(({ full }) => full !== null);
}

function workerJson(
  { links, caches }: RouterContext,
  { worker, leftOut, match, candidate, cost, full }: ExplainedWorker,
): unknown {
  const blockTokens = candidate?.blockTokens ?? 0;
  const [device = 0, host = 0, any = 0] = match?.levels ?? [];
  return {
    id: worker.id,
    kind: worker.kind,
    left_out: leftOut,
    breaker: links.find(worker.id)?.breaker.state ?? null,
    /** Null: it has room. */
    full,
    announces: caches.announces(worker),
    /** Leading tokens of the prompt, on the device, up to host memory, anywhere. */
    cached_tokens: [device * blockTokens, host * blockTokens, any * blockTokens],
    cost_ms: cost?.cost ?? null,
    terms_ms: cost?.terms ?? null,
    load: candidate === null ? null : booksJson(candidate.books),
  };
}
