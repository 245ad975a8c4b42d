/** Ids: that of an item names its response, and that of a response the server that made it. */
import { createHash } from "node:crypto";

const TAG_DIGITS = 12;

/** Longest id that a request may name. */
export const RESPONSE_ID_LENGTH_MAX = 96;

const RESPONSE_ID = /^resp_([0-9a-f]{12})[0-9a-f]{32}$/;
const ITEM_ID = /^[a-z]{2,4}_([0-9a-f]{44})_i?\d{1,6}$/;

/** What stands for a start of a server in the ids of its responses. */
export function serverTag(workerId: string, epoch: string): string {
  const digest = createHash("sha256").update(`${workerId}\n${epoch}`).digest("hex");
  return digest.slice(0, TAG_DIGITS);
}

/** A fresh one; `uuid` is random. */
export function newResponseId(tag: string, uuid: string): string {
  return `resp_${tag}${uuid.replaceAll("-", "")}`;
}

/** The id of a response's item: `place` counts its output, `i0` its input. */
export function itemIdOf(responseId: string, prefix: string, place: number | string): string {
  return `${prefix}_${responseId.slice("resp_".length)}_${place}`;
}

/** The response that an item is of; null: this is no id of an item. */
export function responseOfItem(itemId: string): string | null {
  const [, inner] = ITEM_ID.exec(itemId) ?? [];
  return inner === undefined ? null : `resp_${inner}`;
}

/** Which server has a response; null: this is no id of ours. */
export function tagOfResponse(responseId: string): string | null {
  return RESPONSE_ID.exec(responseId)?.[1] ?? null;
}
