/** Which workers speak Ollama's API, and by which names. */
import type { Member } from "#cluster/protocol";
import { computes, serves } from "#cluster/routing";
import { HttpError } from "#server";
import type { GenerationRequest } from "./generation-request.ts";

type Members = ReadonlyMap<string, Member>;

const LATEST = ":latest";

/** Whether a path is of Ollama's API. */
export function isOllama(path: string): boolean {
  return path.startsWith("/api/");
}

/** The request by the name that workers know: what they serve as NAME, clients call NAME:latest. */
export function withPlainName(request: GenerationRequest, members: Members): GenerationRequest {
  const { path, model } = request;
  if (!isOllama(path) || model?.endsWith(LATEST) !== true) return request;
  const isServed = [...members.values()].some(({ info }) => serves(info, model));
  return isServed ? request : { ...request, model: model.slice(0, -LATEST.length) };
}

/**
 * Workers that do not speak Ollama's API, where the request does. Throws HttpError 501 where they
 * are all that serve its model.
 */
export function othersThanOllama(
  { path, model }: GenerationRequest,
  members: Members,
): ReadonlySet<string> {
  if (!isOllama(path)) return NONE;
  const infos = [...members.values()].map(({ info }) => info).filter(computes);
  const others = infos.filter(({ kind }) => kind !== "perigee");
  if (others.length === 0) return NONE;
  const serving = infos.filter((info) => serves(info, model));
  if (serving.length > 0 && serving.every(({ kind }) => kind !== "perigee")) {
    throw new HttpError(
      501,
      "unsupported",
      `Cannot relay ${path}: a worker of perigee must serve the model, those that do are of ` +
        "other engines; use /v1/chat/completions",
    );
  }
  return new Set(others.map(({ id }) => id));
}

const NONE: ReadonlySet<string> = new Set();
