/** Responses that workers keep: an id tells which worker has it. */
import { createHash } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { isPlainObject, shortText } from "#base";
import type { WorkerInfo } from "#cluster/protocol";
import { HttpError, OWNER_HEADER, responseOfItem, serverTag, tagOfResponse } from "#server";
import { keyOf } from "./client-key.ts";
import type { RouterContext } from "./context.ts";
import type { GenerationRequest } from "./generation-request.ts";

const tags = new WeakMap<WorkerInfo, string>();

/** All workers but the one that keeps what a request goes on with. Throws HttpError 404. */
export function othersThanKeeper(
  { membership }: Pick<RouterContext, "membership">,
  request: GenerationRequest,
): ReadonlySet<string> {
  const keeper = keptAt(membership, request);
  if (keeper === null) return new Set();
  return new Set([...membership.workers.keys()].filter((id) => id !== keeper));
}

/**
 * The worker that keeps what a request goes on with; null: any may answer. Throws HttpError 404
 * where that worker is gone, and with it what it kept.
 */
function keptAt(
  membership: RouterContext["membership"],
  { kind, body }: GenerationRequest,
): string | null {
  if (kind !== "responses") return null;
  const { previous_response_id: previous } = body;
  const isGiven = typeof previous === "string";
  const id = isGiven ? previous : firstReference(body.input);
  if (id === null) return null;
  const field = isGiven ? "previous_response_id" : "input";
  return workerOf(membership, id)?.id ?? missing(field, id);
}

/** Null: an id as other engines make them, of which nothing tells who has it. */
function missing(field: string, id: string): null {
  if (tagOfResponse(id) === null) return null;
  throw goneResponse(field, id);
}

/** The worker that keeps a response; null: none of the fleet. */
export function workerOf(
  membership: RouterContext["membership"],
  responseId: string,
): WorkerInfo | null {
  const tag = tagOfResponse(responseId);
  if (tag === null) return null;
  for (const { info } of membership.workers.values()) {
    if (tagOf(info) === tag) return info;
  }
  return null;
}

/** No worker of the fleet has it. */
export function goneResponse(field: string, id: string): HttpError {
  return new HttpError(
    404,
    "response_not_found",
    `Cannot use ${field}: must be the id of a response that a worker of this fleet keeps, ` +
      `current value is \`${shortText(id)}\`; its worker may have left, or started again`,
  );
}

/** Tells a worker for whom the router asks, by what cannot be turned back into a key. */
export function ownerHeaders(
  context: Pick<RouterContext, "config">,
  request: FastifyRequest,
): Readonly<Record<string, string>> {
  const key = keyOf(context, request);
  if (key === "") return {};
  return { [OWNER_HEADER]: createHash("sha256").update(key).digest("hex") };
}

function tagOf(info: WorkerInfo): string {
  const known = tags.get(info) ?? serverTag(info.id, info.epoch);
  tags.set(info, known);
  return known;
}

/** The response of the first item that is only named; null: all items are there. */
function firstReference(input: unknown): string | null {
  if (!Array.isArray(input)) return null;
  const named = input.find(isReference);
  return named === undefined ? null : responseOfItem(named.id);
}

function isReference(item: unknown): item is { readonly id: string } {
  if (!isPlainObject(item) || typeof item.id !== "string") return false;
  return item.type === "item_reference" || (item.type == null && item.role === undefined);
}
