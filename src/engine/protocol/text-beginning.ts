import type { TextFrame } from "./api.ts";

/**
 * The first tokens of a text, cut as in the training of encoders: the special tokens around it
 * (`[CLS]`, `[SEP]`) stay, and count among the `kept`. Null: no token of the text would stay.
 */
export function beginning(
  ids: readonly number[],
  kept: number,
  { before, after }: TextFrame,
): number[] | null {
  if (ids.length <= kept) return [...ids];
  const isFramed =
    before.every((id, i) => ids[i] === id) &&
    after.every((id, i) => ids[ids.length - after.length + i] === id);
  if (!isFramed) return ids.slice(0, kept);
  if (kept < before.length + after.length + 1) return null;
  return [...ids.slice(0, kept - after.length), ...after];
}
