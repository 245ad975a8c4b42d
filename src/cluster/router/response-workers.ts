/** Responses that workers keep: an id tells which worker has it. */
import { createHash } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { EngineError, isPlainObject, shortText } from "#base";
import type { WorkerInfo } from "#cluster/protocol";
import { serves } from "#cluster/routing";
import { HttpError, OWNER_HEADER, responseOfItem, serverTag, tagOfResponse } from "#server";
import { keyOf } from "./client-key.ts";
import type { RouterContext } from "./context.ts";
import type { GenerationRequest } from "./generation-request.ts";

const tags = new WeakMap<WorkerInfo, string>();

type Fleet = RouterContext["membership"];

/** What a request goes on with, and the worker that has it. */
export interface Keeper {
  /** The field that names it. */
  readonly field: string;
  readonly responseId: string;
  readonly worker: WorkerInfo;
}

/**
 * Who keeps what a request goes on with; null: any worker may answer. Throws HttpError 404 where
 * that worker is gone, and with it what it kept; INVALID_ARGUMENT where it serves another model.
 */
export function keeperOf(membership: Fleet, request: GenerationRequest): Keeper | null {
  const { kind, body, model } = request;
  if (kind !== "responses") return null;
  const { previous_response_id: previous } = body;
  const isGiven = typeof previous === "string";
  const id = isGiven ? previous : firstReference(body.input);
  if (id === null) return null;
  const field = isGiven ? "previous_response_id" : "input";
  const worker = workerOf(membership, id);
  // An id as other engines make them: nothing tells who has it.
  if (worker === null && tagOfResponse(id) === null) return null;
  if (worker === null) throw goneResponse(field, id);
  if (!serves(worker, model)) throw ofOtherModel(field, id, model);
  return { field, responseId: id, worker };
}

/** All workers but the keeper. */
export function othersThan(membership: Fleet, keeper: Keeper | null): ReadonlySet<string> {
  if (keeper === null) return new Set();
  return new Set([...membership.workers.keys()].filter((id) => id !== keeper.worker.id));
}

function ofOtherModel(field: string, id: string, model: string | null): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use ${field}: must be the id of a response of a worker that serves ` +
      `\`${shortText(model ?? "")}\`, current value is \`${shortText(id)}\`, of another model; ` +
      INSTEAD,
    { param: field },
  );
}

/** Failures that no other worker can make good. */
const UNANSWERED: ReadonlySet<string> = new Set(["NOT_READY", "WORKER_FAILED", "WORKER_TIMEOUT"]);

/** What to tell a client whose request failed: that one worker alone could have answered it. */
export function keptFailure(error: unknown, keeper: Keeper | null): unknown {
  if (keeper === null || !(error instanceof EngineError) || !UNANSWERED.has(error.code)) {
    return error;
  }
  const { field, responseId, worker } = keeper;
  return new EngineError(
    error.code,
    `Cannot use ${field}: worker ${worker.id} keeps \`${shortText(responseId)}\` and must ` +
      `answer, it does not just now; try again, or ${INSTEAD}`,
    { param: field, cause: error },
  );
}

const INSTEAD = "send the items of the conversation as input";

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
      `current value is \`${shortText(id)}\`; its worker has left, or started again: ${INSTEAD}`,
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
