/** The conversation that a request goes on with: kept turns, items that it names, its own items. */
import { EngineError, shortText } from "#base";
import { bodyBytesMax } from "../../body-limit.ts";
import type { Call, ServerContext } from "../../context.ts";
import { HttpError } from "../../http-errors.ts";
import { LIST_LIMITS } from "../bounded.ts";
import { fieldError } from "../parse-request.ts";
import type { ConversationItem, InputItem } from "./input-items.ts";
import { itemIdOf, newResponseId, responseOfItem } from "./response-ids.ts";
import type { ResponseRequest } from "./response-request.ts";
import type { StoredTurn } from "./response-store.ts";

/** A turn that is about to be answered. */
export interface OpenedTurn {
  readonly id: string;
  readonly owner: string;
  readonly request: ResponseRequest;
  /** All items that the model is shown, the oldest first. */
  readonly items: readonly ConversationItem[];
  /** Those that the request brought, with ids. */
  readonly input: readonly ConversationItem[];
  /** Of the conversation so far. */
  readonly cacheSalt: string | null;
}

/** Throws HttpError 404 for what is not there, PROMPT_TOO_LONG, INVALID_ARGUMENT. */
export async function openTurn(
  context: ServerContext,
  request: ResponseRequest,
  call: Call,
): Promise<OpenedTurn> {
  const { owner } = call;
  const id = newResponseId(context.responses.tag, context.newId());
  const previous = request.previous_response_id ?? null;
  const turns = previous === null ? [] : await kept(context, owner, previous);
  const earlier = turns.flatMap(itemsOf);
  const reader = new References(context, owner);
  const given = await reader.resolved(request.input ?? []);
  const input = given.map((item, place) => withId(item, id, place));
  const items = [...earlier, ...input];
  if (items.length === 0) throw fieldError("input", "must be given: text, or a list of items");
  checkCount(items.length);
  return { id, owner, request, items, input, cacheSalt: turns.at(-1)?.cacheSalt ?? null };
}

const PREFIXES = {
  message: "msg",
  function_call: "fc",
  function_call_output: "fco",
  reasoning: "rs",
  file_search_call: "fs",
} as const;

/** Items of before keep the ids that they have. */
function withId(item: ConversationItem, responseId: string, place: number): ConversationItem {
  if (typeof item.id === "string") return item;
  return { ...item, id: itemIdOf(responseId, PREFIXES[item.type], `i${place}`) };
}

async function kept(
  context: ServerContext,
  owner: string,
  id: string,
): Promise<readonly StoredTurn[]> {
  const most = bodyBytesMax(context);
  const found = await context.responses.store.conversation(owner, id, most);
  if (found === null) throw notFound("previous_response_id", "response", id);
  if (!("bytes" in found)) return found;
  throw new EngineError(
    "PROMPT_TOO_LONG",
    `Cannot use previous_response_id: its conversation must have at most ${most} bytes, current ` +
      `value is ${found.bytes}; begin another one`,
    { param: "previous_response_id" },
  );
}

/** The error for an id that the caller's key has nothing under. */
export function notFound(field: string, what: "response" | "item", id: string): HttpError {
  return new HttpError(
    404,
    `${what}_not_found`,
    `Cannot use ${field}: must be the id of a ${what} that is kept for this API key, current ` +
      `value is \`${shortText(id)}\`; it may have expired, or was made with store: false`,
  );
}

function itemsOf({ input, response }: StoredTurn): ConversationItem[] {
  const { output } = parsed(response) as { output: ConversationItem[] };
  return [...(parsed(input) as ConversationItem[]), ...output];
}

/** Our own JSON. */
function parsed(bytes: Uint8Array): unknown {
  return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8"));
}

function checkCount(count: number): void {
  const { messages: most } = LIST_LIMITS;
  if (count <= most) return;
  throw fieldError("input", `a conversation has at most ${most} items, current value is ${count}`);
}

/** Finds items by their ids. */
class References {
  readonly #context: ServerContext;
  readonly #owner: string;
  readonly #known = new Map<string, ReadonlyMap<string, ConversationItem>>();

  constructor(context: ServerContext, owner: string) {
    this.#context = context;
    this.#owner = owner;
  }

  async resolved(items: readonly InputItem[]): Promise<readonly ConversationItem[]> {
    const found: ConversationItem[] = [];
    for (const item of items) {
      found.push(item.type === "item_reference" ? await this.#item(item.id) : item);
    }
    return found;
  }

  async #item(id: string): Promise<ConversationItem> {
    const responseId = responseOfItem(id);
    const item = responseId === null ? null : (await this.#itemsOf(responseId)).get(id);
    if (item == null) throw notFound("input", "item", id);
    return item;
  }

  async #itemsOf(responseId: string): Promise<ReadonlyMap<string, ConversationItem>> {
    const known = this.#known.get(responseId);
    if (known !== undefined) return known;
    const turn = await this.#context.responses.store.turn(this.#owner, responseId);
    const items = turn === null ? [] : itemsOf(turn);
    const byId = new Map(items.flatMap((item) => (item.id == null ? [] : [[item.id, item]])));
    this.#known.set(responseId, byId);
    return byId;
  }
}
