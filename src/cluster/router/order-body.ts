/** The body that a worker gets of an order. */
import type { WorkerInfo } from "#cluster/protocol";
import { isSteered } from "./generation-request.ts";
import type { MarkerReader } from "./marker-reader.ts";
import type { RelayOrder, RelayTools } from "./relay-order.ts";
import {
  foreignBody,
  isMarkable,
  markedBody,
  type PrivateFields,
  routedBody,
} from "./worker-body.ts";

/** What an attempt adds to the order. */
export interface AttemptFields
  extends Pick<PrivateFields, "cachedTokens" | "kvSource" | "roleEpoch"> {
  readonly marked: MarkerReader | null;
  readonly codecs: RelayTools["codecs"];
}

export function bodyFor(info: WorkerInfo, order: RelayOrder, fields: AttemptFields): string {
  const { request, promptTokenIds, seed, created } = order;
  const { marked, codecs, cachedTokens, kvSource, roleEpoch } = fields;
  const isKnown = isSteered(request.kind);
  if (isKnown && info.kind !== "perigee") return foreignBody(request, info);
  if (!isKnown || !isMarkable(info) || request.isPrivate) return request.text;
  if (request.kind === "responses") {
    return routedBody(request, { seed, created, kvSource, roleEpoch });
  }
  return markedBody(request, {
    ...{ seed, created, promptTokenIds: codecs.agrees(info) ? promptTokenIds : null },
    progress: marked?.begun === true ? marked.choices : null,
    ...{ cachedTokens, kvSource, roleEpoch },
  });
}
