/** Which model a request means that names none. */
import { EngineError, shortText } from "#base";
import type { Member, WorkerInfo } from "#cluster/protocol";
import { computes } from "#cluster/routing";
import type { GenerationRequest } from "./generation-request.ts";
import { withFirstField } from "./worker-body.ts";

/** Most names in an error. */
const NAMES_MAX = 10;

/**
 * The request with the name of the model that all members serve, so that each worker, whatever its
 * engine wants, is sent one. Unchanged where it names a model, or no member is known. Throws
 * INVALID_ARGUMENT where members serve several models: chance would decide who answers.
 */
export function withModel(
  request: GenerationRequest,
  members: ReadonlyMap<string, Member>,
): GenerationRequest {
  const { body, text } = request;
  const infos = [...members.values()].map(({ info }) => info).filter(computes);
  const isNamed = request.model !== null || (body.model ?? null) !== null;
  if (isNamed || infos.length === 0) return request;
  const model = commonModel(infos);
  if (model === null) throw unnamed(infos);
  const named = { ...body, model };
  // A field that is null stands there already, and would count in place of the one before it.
  const isMissing = !Object.hasOwn(body, "model");
  const json = isMissing ? withFirstField(text, `"model":${JSON.stringify(model)}`) : null;
  return { ...request, model, body: named, text: json ?? JSON.stringify(named) };
}

/** A main name under which all workers serve; adapters are models of their own. */
function commonModel(infos: readonly WorkerInfo[]): string | null {
  for (const [main] of infos.map(({ models }) => models)) {
    if (main === undefined) continue;
    const isServed = ({ models, adapters = [] }: WorkerInfo) =>
      models.includes(main) && !adapters.includes(main);
    if (infos.every(isServed)) return main;
  }
  return null;
}

function unnamed(infos: readonly WorkerInfo[]): EngineError {
  const names = [...new Set(infos.flatMap(({ models }) => models.slice(0, 1)))].sort();
  const shown = names.slice(0, NAMES_MAX).map((name) => `\`${shortText(name)}\``);
  const more = names.length > NAMES_MAX ? ` and ${names.length - NAMES_MAX} more` : "";
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot choose a model: must be named by the field model where several are served, current ` +
      `value is missing; ${shown.join(", ")}${more} are served`,
    { param: "model" },
  );
}
