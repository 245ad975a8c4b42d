import { type ContentKeys, extraOf } from "./content-keys.ts";
import type { BlockPlace, NodeId } from "./prefix-tree.ts";

/** A prompt to look up. */
export interface LookUp {
  readonly scope: string;
  readonly tokens: Int32Array;
  /** Identity of its contents beside tokens; null: none. */
  readonly keys: ContentKeys | null;
}

/** The place, below `parent`, of a prompt's `count` tokens from `start` on. */
export function placeOf(
  { scope, tokens, keys }: LookUp,
  parent: NodeId | null,
  start: number,
  count: number,
): BlockPlace {
  return { scope, parent, tokens, start, count, extra: extraOf(keys, start, start + count) };
}
