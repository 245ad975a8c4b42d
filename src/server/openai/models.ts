/** GET /v1/models and /v1/models/:id. */
import type { ServerContext } from "../context.ts";
import { checkModelName } from "./delivery.ts";

/** A served model name in OpenAI's and vLLM's format. */
function modelCard({ model }: ServerContext, id: string, created: number): unknown {
  return {
    id,
    object: "model",
    created,
    owned_by: "perigee",
    root: model.info.name,
    parent: null,
    max_model_len: model.info.contextTokensMax,
  };
}

/** `created`: Unix time in seconds at which the server started. */
export function listModels(context: ServerContext, created: number): unknown {
  const data = context.modelNames.map((id) => modelCard(context, id, created));
  return { object: "list", data };
}

/** Throws MODEL_NOT_FOUND for an unknown name. */
export function getModel(context: ServerContext, id: string, created: number): unknown {
  checkModelName(context, id);
  return modelCard(context, id, created);
}
