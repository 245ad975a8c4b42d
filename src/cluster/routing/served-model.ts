/** What a worker does for requests, and what a model's name means to it. */
import type { WorkerInfo } from "#cluster/protocol";

/** Whether it takes requests: one that gives memory alone has no weights. */
export function computes({ role }: WorkerInfo): boolean {
  return role !== "kv";
}

/** Whether the worker serves a model of this name; null: the request names none. */
export function serves(info: WorkerInfo, model: string | null): boolean {
  return model === null || info.models.includes(model) || adapterOf(info, model) !== null;
}

/**
 * The adapter that the worker serves under this name; null: its base model, or none. SGLang takes
 * `BASE:ADAPTER`, too.
 */
export function adapterOf({ kind, models, adapters = [] }: WorkerInfo, model: string | null) {
  if (model === null || adapters.length === 0) return null;
  if (adapters.includes(model)) return model;
  const colon = model.indexOf(":");
  if (kind !== "sglang" || colon < 0) return null;
  const adapter = model.slice(colon + 1);
  return models.includes(model.slice(0, colon)) && adapters.includes(adapter) ? adapter : null;
}
