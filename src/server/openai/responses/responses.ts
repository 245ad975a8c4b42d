/** POST /v1/responses. */
import type { Call, ServerContext } from "../../context.ts";
import { type Dialect, OPENAI, OPENAI_STREAM } from "../../dialect.ts";
import type { ErrorBody } from "../../http-errors.ts";
import type { Answer } from "../answer.ts";
import { chatGeneration } from "../chat-generation.ts";
import type { ChatRequest } from "../chat-request.ts";
import { checkModelName } from "../delivery.ts";
import { fileSearchOf, searchToolOf } from "../file-search-answer.ts";
import { parseRequest } from "../parse-request.ts";
import { chatRequestOf, named } from "./chat-form.ts";
import { messagesOf } from "./conversation.ts";
import { generateInto } from "./generated-response.ts";
import { type OpenedTurn, openTurn } from "./opened-turn.ts";
import type { ResponseFacts } from "./response-body.ts";
import { ResponseRequest } from "./response-request.ts";
import { ResponseWriter } from "./response-writer.ts";
import { searchInto } from "./searched-response.ts";
import { fittingChat } from "./truncation.ts";

/** Its streams end with their last event; clients throw what has `error`. */
export const RESPONSES: Dialect = {
  ...OPENAI,
  failureItem: ({ body: { error } }) => {
    const { code, message, param } = error;
    const event = { type: "error", code, message, param, error };
    return `event: error\ndata: ${JSON.stringify(event)}\n\n`;
  },
  stream: { ...OPENAI_STREAM, end: "" },
};

/** A response in the making. */
interface Responding {
  readonly context: ServerContext;
  readonly turn: OpenedTurn;
  readonly writer: ResponseWriter;
  /** Writes the output, and yields after each piece; returns whether it is cut. */
  readonly work: AsyncGenerator<void, boolean, undefined>;
  readonly cacheSalt: string | null;
}

/** Answers from the model, or from vector stores; keeps the response if the request allows it. */
export async function responses(
  context: ServerContext,
  body: unknown,
  call: Call,
): Promise<Answer> {
  const request = parseRequest(ResponseRequest, body);
  checkModelName(context, request.model);
  const turn = await openTurn(context, request, call);
  const responding = await named(() => begin(context, turn, call));
  if (request.stream === true) {
    return {
      kind: "events",
      events: streamed(responding),
      failure: (failure: ErrorBody) => responding.writer.failed(failure),
    };
  }
  const { work } = responding;
  let step = await work.next();
  while (step.done !== true) step = await work.next();
  const { bytes } = await finished(responding, step.value);
  return { kind: "bytes", json: bytes };
}

async function begin(context: ServerContext, turn: OpenedTurn, call: Call): Promise<Responding> {
  const { request, items, cacheSalt: earlierSalt } = turn;
  const messages = messagesOf(request.instructions ?? null, items);
  const parts = { messages, cacheSalt: earlierSalt, config: context.config };
  const chat = chatRequestOf(request, parts);
  const common = { context, turn, cacheSalt: chat.cache_salt ?? null };
  const tool = searchToolOf(chat);
  if (tool !== null) {
    const { temperature } = chat;
    const writer = new ResponseWriter(
      factsOf(context, turn, {
        created: call.created,
        sampling: { temperature: temperature ?? 0 },
      }),
      call.usage,
    );
    const found = fileSearchOf(context, { request: withoutPrompt(chat), tool }, call.signal);
    const withResults = request.include?.includes("file_search_call.results") === true;
    return { ...common, writer, work: searchInto(writer, { ...found, call, withResults }) };
  }
  const fitting = request.truncation === "auto" ? await fittingChat(context, chat, call) : chat;
  const generation = await chatGeneration(context, fitting, call);
  const { created, options, usage } = generation;
  const writer = new ResponseWriter(factsOf(context, turn, { created, sampling: options }), usage);
  return { ...common, writer, work: generateInto(writer, context.model, generation) };
}

/** Without what is set for a prompt that the server itself makes. */
function withoutPrompt(chat: ChatRequest): ChatRequest {
  const { kv_cache_retention_config: _retention, perigee: _routed, ...rest } = chat;
  const { chat_template_kwargs: _variables, ...searchable } = rest;
  return searchable;
}

function factsOf(
  { config, modelNames }: ServerContext,
  { id, request }: OpenedTurn,
  known: Pick<ResponseFacts, "created" | "sampling">,
): ResponseFacts {
  const isStored = request.store !== false && config.responsesStoredMax > 0;
  return { id, request, modelName: request.model ?? modelNames[0], isStored, ...known };
}

async function* streamed(responding: Responding): AsyncGenerator<string> {
  const { work, writer } = responding;
  let step = await work.next();
  for (; step.done !== true; step = await work.next()) {
    const events = writer.take();
    if (events !== "") yield events;
  }
  const { response } = await finished(responding, step.value);
  writer.conclude(response);
  yield writer.take();
}

/** The whole response: it is kept before the client knows of it. */
async function finished(
  { context, turn, writer, cacheSalt }: Responding,
  isCut: boolean,
): Promise<{ readonly response: object; readonly bytes: Buffer }> {
  const { id, owner, request, input } = turn;
  const response = writer.finish(isCut, context.nowSeconds());
  const bytes = Buffer.from(JSON.stringify(response));
  const isStored = request.store !== false && context.config.responsesStoredMax > 0;
  if (isStored) {
    const previousId = request.previous_response_id ?? null;
    await context.responses.store.keep({
      ...{ id, owner, previousId, cacheSalt },
      ...{ input: Buffer.from(JSON.stringify(input)), response: bytes },
    });
  }
  return { response, bytes };
}
