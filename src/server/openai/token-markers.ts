/** Comment lines that tell a router which tokens a stream's events contain. */
import type { PromptInfo, StreamItem } from "#engine";

/** Precedes all events of a prompt. */
export function promptMarker(index: number, { promptTokenIds, cachedTokens }: PromptInfo): string {
  return `: p ${index} ${promptTokenIds.length} ${cachedTokens}\n\n`;
}

/** Follows all events that an item of a choice leads to, also where these are none. */
export function tokenMarker(choice: number, { tokenIds, finishReason }: StreamItem): string {
  const ids = tokenIds.length === 0 ? "-" : tokenIds.join(",");
  return `: t ${choice} ${ids}${finishReason === null ? "" : " end"}\n\n`;
}
