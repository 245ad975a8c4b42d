/** GET, DELETE, input items and cancelling of kept responses. They run on the main thread. */
import type { FastifyInstance, FastifyRequest } from "fastify";
import { z } from "zod";
import { isPlainObject } from "#base";
import { ownerOf } from "../../access.ts";
import type { ServerContext } from "../../context.ts";
import { HttpError } from "../../http-errors.ts";
import { fieldError, parseRequest } from "../parse-request.ts";
import { notFound } from "./opened-turn.ts";
import { RESPONSE_ID_LENGTH_MAX } from "./response-ids.ts";
import { ResponseShelves, type StoredTurn } from "./response-store.ts";

/** How often it is looked for what has expired, where no request comes. */
const EXPIRY_MS = 30_000;
const ITEMS_DEFAULT = 20;
const ITEMS_MAX = 100;

/** Parameters of a path below a response. */
interface ResponseParams {
  readonly Params: { readonly response: string };
}

const shown = z.union([z.string(), z.array(z.string()).max(64)]).optional();

/** Query of GET /v1/responses/{id}. */
export const ResponseQuery = z.strictObject({
  include: shown,
  "include[]": shown,
  stream: z.literal("false", "must be false: a kept response is no stream").optional(),
  include_obfuscation: z.string().max(8).optional(),
});

/** Query of GET /v1/responses/{id}/input_items. */
export const ItemsQuery = z.strictObject({
  limit: z
    .string()
    .regex(/^\d{1,6}$/, "must be a whole number")
    .optional(),
  order: z.enum(["asc", "desc"]).optional(),
  after: z.string().max(RESPONSE_ID_LENGTH_MAX).optional(),
  include: shown,
  "include[]": shown,
});
type ItemsQuery = z.output<typeof ItemsQuery>;

/** Registers them where responses are kept: not on an answering thread, which has none. */
export function responseRoutes(app: FastifyInstance, context: ServerContext): void {
  const { store } = context.responses;
  if (!(store instanceof ResponseShelves)) return;
  const { apiKey } = context.config;
  const timer = setInterval(() => store.expire(), EXPIRY_MS).unref();
  app.addHook("onClose", async () => clearInterval(timer));
  const found = (request: FastifyRequest<ResponseParams>): StoredTurn => {
    const { response: id } = request.params;
    const turn = store.find(ownerOf(request, apiKey), id);
    if (turn === null) throw notFound("response_id", "response", id);
    return turn;
  };
  app.get<ResponseParams>("/v1/responses/:response", async (request, reply) => {
    parseRequest(ResponseQuery, request.query);
    const { response } = found(request);
    return reply.type("application/json; charset=utf-8").send(Buffer.from(response));
  });
  app.delete<ResponseParams>("/v1/responses/:response", async (request) => {
    const { id, owner } = found(request);
    store.delete(owner, id);
    return { id, object: "response", deleted: true };
  });
  app.get<ResponseParams>("/v1/responses/:response/input_items", async (request) => {
    const query = parseRequest(ItemsQuery, request.query);
    return itemsPage(found(request), query);
  });
  app.post<ResponseParams>("/v1/responses/:response/cancel", async (request) => {
    checkEmpty(request.body);
    const { id } = found(request);
    throw new HttpError(
      400,
      "response_not_cancellable",
      `Cannot cancel ${id}: it must be in progress, current value is over; a response ends with ` +
        "its connection, and is kept when it is over",
    );
  });
}

function checkEmpty(body: unknown): void {
  const isEmpty = body == null || (isPlainObject(body) && Object.keys(body).length === 0);
  if (!isEmpty) throw fieldError("body", "must be empty");
}

/** A page of what the request of a response brought, the newest first unless it is asked for. */
function itemsPage({ input }: StoredTurn, query: ItemsQuery): object {
  const items = JSON.parse(Buffer.from(input).toString("utf8")) as { readonly id: string }[];
  if (query.order !== "asc") items.reverse();
  const limit = Math.min(Math.max(Number(query.limit ?? ITEMS_DEFAULT), 1), ITEMS_MAX);
  const { after } = query;
  const before = after === undefined ? -1 : items.findIndex(({ id }) => id === after);
  if (after !== undefined && before < 0) throw notFound("after", "item", after);
  const data = items.slice(before + 1, before + 1 + limit);
  const hasMore = before + 1 + limit < items.length;
  const ends = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
  return { object: "list", data, ...ends, has_more: hasMore };
}
