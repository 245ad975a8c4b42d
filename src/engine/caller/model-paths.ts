import { resolveModel } from "#checkpoint";
import type { EngineOptions } from "#engine/protocol";
import { withAutoDrafts } from "./auto-drafts.ts";

/** Where the models of a call to load are. */
export interface ModelPaths {
  readonly path: string;
  /** With what drafts, where the options leave that open. */
  readonly settings: EngineOptions;
  /** The same for the engine: a draft model by its path. */
  readonly options: EngineOptions;
}

/** Finds a model and its draft model in folders and in the hub's cache. Throws MODEL_NOT_FOUND. */
export async function modelPaths(model: string, wanted: EngineOptions): Promise<ModelPaths> {
  const { revision, cacheDir } = wanted.hub;
  const cache = cacheDir === null ? {} : { cacheDir };
  const path = await resolveModel(model, { revision, ...cache });
  const settings = withAutoDrafts(wanted, path);
  const { speculative } = settings;
  const drafter = speculative.model === null ? null : await resolveModel(speculative.model, cache);
  const options = { ...settings, speculative: { ...speculative, model: drafter } };
  return { path, settings, options };
}
