import { type ContentKeys, extraOf } from "./content-keys.ts";
import type { BlockPlace, NodeId } from "./prefix-tree.ts";

/** A prompt, to be looked up. */
export interface LookUp {
  readonly scope: string;
  readonly tokens: Int32Array;
  /** What tells its contents apart beside tokens; null: nothing. */
  readonly keys: ContentKeys | null;
}

/** Where a prompt's `count` tokens from `start` on are stored, if they are, below `parent`. */
export function placeOf(
  { scope, tokens, keys }: LookUp,
  parent: NodeId | null,
  start: number,
  count: number,
): BlockPlace {
  return { scope, parent, tokens, start, count, extra: extraOf(keys, start, start + count) };
}
