/** GET /v1/models: what the workers that are ready serve. */
import type { FastifyInstance } from "fastify";
import { EngineError, shortText } from "#base";
import { computes } from "#cluster/routing";
import type { RouterContext } from "./context.ts";

interface ModelCard {
  readonly id: string;
  readonly object: "model";
  readonly created: number;
  readonly owned_by: string;
  readonly root: string;
  readonly parent: null;
  /** The shortest of its workers; null: none says. */
  readonly max_model_len: number | null;
  /** How many workers serve it now. */
  readonly workers: number;
}

const NO_WORKER =
  "Cannot list models: a worker must be ready, current value is none; try again later";

export function modelsRoutes(app: FastifyInstance, context: RouterContext): void {
  const created = Math.floor(Date.now() / 1000);
  app.get("/v1/models", async () => ({ object: "list", data: modelCards(context, created) }));
  // A wildcard, because names such as ORG/NAME contain slashes.
  app.get<{ Params: { "*": string } }>("/v1/models/*", async ({ params }) => {
    const card = modelCards(context, created).find(({ id }) => id === params["*"]);
    if (card !== undefined) return card;
    const message = `The model \`${shortText(params["*"])}\` does not exist.`;
    throw new EngineError("MODEL_NOT_FOUND", message, { param: "model" });
  });
}

function modelCards({ membership }: RouterContext, created: number): ModelCard[] {
  const cards = new Map<string, ModelCard>();
  for (const { info, state } of membership.workers.values()) {
    if (state !== "ready" || !computes(info)) continue;
    for (const id of info.models) {
      const known = cards.get(id);
      const lengths = [known?.max_model_len ?? 0, info.contextTokensMax].filter((n) => n > 0);
      cards.set(id, {
        ...{ id, object: "model", created, owned_by: "perigee", parent: null },
        root: info.models[0] ?? id,
        max_model_len: lengths.length === 0 ? null : Math.min(...lengths),
        workers: (known?.workers ?? 0) + 1,
      });
    }
  }
  // An empty list would be taken for the truth; "not ready" is asked again.
  if (cards.size === 0) throw new EngineError("NOT_READY", NO_WORKER);
  return [...cards.values()];
}
