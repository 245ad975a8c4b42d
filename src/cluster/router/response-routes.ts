/** Kept responses are asked for at the worker that has them. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { askWorker } from "./ask-worker.ts";
import type { RouterContext } from "./context.ts";
import { passedHeaders } from "./relay-answers.ts";
import { goneResponse, ownerHeaders, workerOf } from "./response-workers.ts";

interface ResponseParams {
  readonly Params: { readonly response: string };
}

type ResponseRequest = FastifyRequest<ResponseParams>;

export function responseRoutes(app: FastifyInstance, context: RouterContext): void {
  const path = "/v1/responses/:response";
  const passed =
    (method: "DELETE" | "GET" | "POST") => (request: ResponseRequest, reply: FastifyReply) =>
      pass(context, method, request, reply);
  app.get<ResponseParams>(path, passed("GET"));
  app.delete<ResponseParams>(path, passed("DELETE"));
  app.get<ResponseParams>(`${path}/input_items`, passed("GET"));
  app.post<ResponseParams>(`${path}/cancel`, passed("POST"));
}

async function pass(
  context: RouterContext,
  method: "DELETE" | "GET" | "POST",
  request: ResponseRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { response: id } = request.params;
  const info = workerOf(context.membership, id);
  const link = info === null ? null : context.links.find(info.id);
  if (link === null) throw goneResponse("response_id", id);
  const { status, headers, text } = await askWorker(link, {
    ...{ method, path: request.url, body: method === "POST" ? "{}" : null },
    timeoutMs: context.config.connectTimeoutMs * 2,
    headers: ownerHeaders(context, request),
  });
  return reply.code(status).headers(passedHeaders(headers)).send(text);
}
